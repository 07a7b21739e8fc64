// The imitation engine's server: SGLang's and vLLM's endpoints around an update, as far as docs/design/serving.md names them,
// and pages of its own for whoever tests with it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/scheduler.h"
#include "transport/http_message.h"

namespace xorbit::imitation {

// By path, what makes the body.
using OwnPages = std::map<std::string, std::function<std::string()>>;

// Any thread.
HttpReply AnswerRequest(Scheduler& scheduler, bool is_vllm, const OwnPages& pages, const HttpRequest& request);

}  // namespace xorbit::imitation
