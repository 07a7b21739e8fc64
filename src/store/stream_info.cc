#include "store/stream_info.h"

#include "base/text.h"
#include "payload/json_fields.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-stream";
constexpr uint32_t kFormatVersion = 1;

}  // namespace

std::string WriteStreamInfo(const StreamInfo& info) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["stream_id"] = info.stream_id;
  json["base_fingerprint"] = ToHex(info.base_fingerprint);
  json["base_digest"] = ToText(info.base);
  json["frozen_digest"] = ToText(info.frozen);
  json["layout_digest"] = ToHex(info.layout_digest);
  json["layout_sha256"] = ToHex(info.layout_sha256);
  json["resume_window"] = info.resume_window;
  return DumpJson(json) + "\n";
}

Result<StreamInfo> ParseStreamInfo(std::string_view text) {
  const JsonShape shape = JsonShape::Object(
      {"stream_id", "base_fingerprint", "base_digest", "frozen_digest", "layout_digest", "layout_sha256", "resume_window"});
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "stream_id", "base_fingerprint", "base_digest",
                                                    "frozen_digest", "layout_digest", "layout_sha256", "resume_window"}));
  StreamInfo info;
  XORBIT_ASSIGN_OR_RETURN(info.stream_id, GetId(json, "stream_id"));
  XORBIT_ASSIGN_OR_RETURN(info.base_fingerprint, GetSha256(json, "base_fingerprint"));
  XORBIT_ASSIGN_OR_RETURN(info.base, GetStateDigest(json, "base_digest"));
  XORBIT_ASSIGN_OR_RETURN(info.frozen, GetStateDigest(json, "frozen_digest"));
  XORBIT_ASSIGN_OR_RETURN(info.layout_digest, GetSha256(json, "layout_digest"));
  XORBIT_ASSIGN_OR_RETURN(info.layout_sha256, GetSha256(json, "layout_sha256"));
  XORBIT_ASSIGN_OR_RETURN(info.resume_window, GetUnsigned(json, "resume_window"));
  return info;
}

}  // namespace xorbit
