#include "store/head_hint.h"

#include "payload/json_fields.h"
#include "store/store_keys.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-head";
constexpr uint32_t kFormatVersion = 1;

}  // namespace

std::string WriteHeadHint(uint64_t newest_version) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["newest_version"] = newest_version;
  return DumpJson(json) + "\n";
}

Result<uint64_t> ParseHeadHint(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const Json json,
                          ParseDocument(text, JsonShape::Object({"newest_version"}), kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "newest_version"}));
  return GetUnsigned(json, "newest_version", kMaxVersion);
}

}  // namespace xorbit
