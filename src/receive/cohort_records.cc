#include "receive/cohort_records.h"

#include "base/text.h"
#include "payload/json_fields.h"

namespace xorbit {
namespace {

constexpr uint32_t kFormatVersion = 1;
constexpr std::string_view kTargetFormat = "xorbit-cohort-target";
constexpr std::string_view kPreparedFormat = "xorbit-cohort-prepared";
constexpr std::string_view kStepFormat = "xorbit-cohort-step";
constexpr std::string_view kRulingFormat = "xorbit-cohort-ruling";

OrderedJson Begin(std::string_view format) {
  OrderedJson json;
  json["format"] = format;
  json["format_version"] = kFormatVersion;
  return json;
}

std::string End(const OrderedJson& json) { return DumpJson(json) + "\n"; }

Result<SessionTarget> TargetOf(const Json& json) {
  SessionTarget target;
  XORBIT_ASSIGN_OR_RETURN(target.from, GetUnsigned(json, "from"));
  XORBIT_ASSIGN_OR_RETURN(target.to, GetUnsigned(json, "to"));
  return target;
}

constexpr uint64_t kMaxShares = 16;

JsonShape PreparedShape() {
  JsonShape shape = JsonShape::Object({"member", "reason", "from", "to"});
  shape.fields.push_back({"shares", JsonShape::Each(JsonShape::Object({"name", "mine", "whole"}), kMaxShares)});
  return shape;
}

Result<Share> ParseShare(const Json& json) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "a share"));
  Share share;
  XORBIT_ASSIGN_OR_RETURN(share.name, GetString(json, "name"));
  XORBIT_ASSIGN_OR_RETURN(share.mine, GetStateDigest(json, "mine"));
  XORBIT_ASSIGN_OR_RETURN(share.whole, GetStateDigest(json, "whole"));
  return share;
}

}  // namespace

Status AddUp(std::span<const PreparedReceipt> receipts) {
  if (receipts.empty()) return {};
  const PreparedReceipt& first = receipts.front();
  std::vector<StateDigest> sums(first.shares.size());
  for (const PreparedReceipt& receipt : receipts) {
    if (receipt.target != first.target) return RefusedError("the ranks have prepared different updates");
    if (receipt.shares.size() != sums.size()) return RefusedError("the ranks do not compare the same digests");
    for (size_t i = 0; i < sums.size(); ++i) {
      const Share& share = receipt.shares[i];
      if (share.name != first.shares[i].name || share.whole != first.shares[i].whole) {
        return RefusedError("the ranks expect different digests of " + Quoted(share.name) +
                            "; they must follow one stream and lack the same presence groups");
      }
      sums[i] += share.mine;
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == first.shares[i].whole) continue;
    return RefusedError("the ranks' digests of " + Quoted(first.shares[i].name) + " add up to " + ToText(sums[i]) +
                        ", not to " + ToText(first.shares[i].whole) + ": some rank's live weights are not version " +
                        std::to_string(first.target.from));
  }
  return {};
}

std::string WriteTarget(const SessionTarget& target, uint32_t rank_count) {
  OrderedJson json = Begin(kTargetFormat);
  json["rank_count"] = rank_count;
  json["from"] = target.from;
  json["to"] = target.to;
  return End(json);
}

std::string WriteReceipt(const PreparedReceipt& receipt, std::string_view member) {
  OrderedJson json = Begin(kPreparedFormat);
  json["member"] = member;
  json["reason"] = receipt.reason;
  json["from"] = receipt.target.from;
  json["to"] = receipt.target.to;
  OrderedJson& shares = json["shares"] = OrderedJson::array();
  for (const Share& share : receipt.shares) {
    shares.push_back({{"name", share.name}, {"mine", ToText(share.mine)}, {"whole", ToText(share.whole)}});
  }
  return End(json);
}

std::string WriteReceipt(const StepReceipt& receipt, std::string_view member) {
  OrderedJson json = Begin(kStepFormat);
  json["member"] = member;
  json["reason"] = receipt.reason;
  json["state_digest"] = ToText(receipt.state);
  return End(json);
}

std::string WriteRuling(const RulingRecord& ruling) {
  OrderedJson json = Begin(kRulingFormat);
  json["yes"] = ruling.yes;
  json["reason"] = ruling.reason;
  return End(json);
}

Result<SessionTarget> ParseTarget(std::string_view text, uint32_t rank_count) {
  XORBIT_ASSIGN_OR_RETURN(const Json json,
                          ParseDocument(text, JsonShape::Object({"rank_count", "from", "to"}), kTargetFormat, kFormatVersion));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t ranks, GetUnsigned(json, "rank_count", kMaxCohortRanks));
  if (ranks != rank_count) {
    return RefusedError("this cohort has " + std::to_string(ranks) + " ranks, not " + std::to_string(rank_count) +
                        "; use another folder for another cohort");
  }
  return TargetOf(json);
}

Result<PreparedReceipt> ParsePreparedReceipt(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, PreparedShape(), kPreparedFormat, kFormatVersion));
  PreparedReceipt receipt;
  XORBIT_ASSIGN_OR_RETURN(receipt.reason, GetString(json, "reason"));
  XORBIT_ASSIGN_OR_RETURN(receipt.target, TargetOf(json));
  XORBIT_ASSIGN_OR_RETURN(const Json* shares, GetArray(json, "shares"));
  for (const Json& entry : *shares) {
    XORBIT_ASSIGN_OR_RETURN(Share share, ParseShare(entry));
    receipt.shares.push_back(std::move(share));
  }
  return receipt;
}

Result<StepReceipt> ParseStepReceipt(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, JsonShape::Object({"member", "reason", "state_digest"}),
                                                         kStepFormat, kFormatVersion));
  StepReceipt receipt;
  XORBIT_ASSIGN_OR_RETURN(receipt.reason, GetString(json, "reason"));
  XORBIT_ASSIGN_OR_RETURN(receipt.state, GetStateDigest(json, "state_digest"));
  return receipt;
}

Result<RulingRecord> ParseRuling(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const Json json,
                          ParseDocument(text, JsonShape::Object({"yes", "reason"}), kRulingFormat, kFormatVersion));
  RulingRecord ruling;
  XORBIT_ASSIGN_OR_RETURN(ruling.yes, GetBool(json, "yes"));
  XORBIT_ASSIGN_OR_RETURN(ruling.reason, GetString(json, "reason"));
  return ruling;
}

}  // namespace xorbit
