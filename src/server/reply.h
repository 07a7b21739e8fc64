// How every reply is made: {"success": ..., "message": ..., more}, with a status that follows from the kind of error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "transport/http_message.h"

namespace xorbit {

// The "type" of a refusal because of another version than the request wants.
inline constexpr std::string_view kVersionNotReady = "WeightVersionNotReady";

HttpReply SuccessReply(std::string_view message, const nlohmann::ordered_json& more);
HttpReply FailureReply(int status, std::string_view message);
HttpReply FailureReply(int status, std::string_view message, const nlohmann::ordered_json& more);
// The same with the status that StatusOf gives.
HttpReply FailureReply(const Status& why);
// A reply of these fields alone, where clients look for nothing else.
HttpReply PlainReply(const nlohmann::ordered_json& fields);
// The number, or null where there is none.
nlohmann::ordered_json OrNull(std::optional<uint64_t> number);

// 400 for what the caller should not have asked, 404, 409 for refusals and damage, 501, 500 for the machine's own troubles.
int HttpStatusOf(Code code);

}  // namespace xorbit
