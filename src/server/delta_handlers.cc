// The reference's eight endpoints: an update step by step or in one call, with a receipt in every reply, refusals too, so that
// a driver always knows how the participant stands.
#include "base/json.h"
#include "base/text.h"
#include "server/handlers.h"
#include "server/reply.h"
#include "server/store_paths.h"

namespace xorbit {
namespace {

OrderedJson IdentityJson(const SamplerIdentity& identity) {
  return {{"engine_id", identity.engine_id},
          {"rank_id", 0},
          {"hostname", identity.hostname},
          {"host_cache_id", identity.hostname},
          {"pid", identity.pid},
          {"start_ticks", identity.start_ticks},
          {"tp_rank", 0},
          {"dp_rank", 0},
          {"pp_rank", 0}};
}

OrderedJson ReceiptJson(SamplerSession& session, const SessionReceipt& receipt) {
  const bool has_paused = receipt.pause_started_ns != 0 && receipt.resumed_ns != 0;
  OrderedJson json = {
      {"identity", IdentityJson(session.identity())},
      {"state", NameOf(receipt.state)},
      {"session_id", receipt.session_id},
      {"stream_id", session.stream().info().stream_id},
      {"base_fingerprint", ToHex(session.stream().info().base_fingerprint)},
      {"base_version", receipt.base_version},
      {"target_version", receipt.target_version},
      {"target_state", receipt.target_state ? ToText(*receipt.target_state) : std::string()},
      {"applied_version", receipt.applied_version},
      {"applied_state", ToText(receipt.applied_state)},
      {"plan_digest", ToHex(session.stream().layout().digest())},
      {"result", receipt.result},
      {"paused", session.is_paused()},
      {"change_count", receipt.change_count},
      {"fetched_bytes", receipt.fetched_bytes},
      {"staged_bytes", receipt.staged_bytes},
      {"kept_bytes", receipt.kept_bytes},
      {"scheduler_timing",
       {{"pause_started_ns", receipt.pause_started_ns},
        {"reader_fence_completed_ns", receipt.reader_fence_completed_ns},
        {"applied_ns", receipt.applied_ns},
        {"resumed_ns", receipt.resumed_ns},
        {"blocked_s", has_paused ? static_cast<double>(receipt.resumed_ns - receipt.pause_started_ns) * 1e-9 : 0.0}}}};
  if (receipt.lease_left_ms) json["lease_left_ms"] = *receipt.lease_left_ms;
  if (!receipt.damage.empty()) json["damage"] = receipt.damage;
  return json;
}

OrderedJson Participants(SamplerSession& session, const SessionReceipt& receipt) {
  return {{"participants", OrderedJson::array({ReceiptJson(session, receipt)})}};
}

// A failure still says how the participant stands. Every refusal of these endpoints is a 409; only what no driver could have
// meant is a 400.
HttpReply Refusal(SamplerSession& session, const Status& why) {
  return FailureReply(why.code() == Code::kUsage ? 400 : 409, why.message(), Participants(session, session.receipt()));
}

HttpReply ReplyOf(SamplerSession& session, const Result<SessionReceipt>& receipt) {
  if (!receipt.ok()) return Refusal(session, receipt.status());
  return SuccessReply(NameOf(receipt->state), Participants(session, *receipt));
}

// What the driver believes about this sampler.
Status CheckBeliefs(SamplerSession& session, const ControlFields& fields) {
  const std::string& stream_id = session.stream().info().stream_id;
  if (fields.stream_id.value_or(stream_id) != stream_id) {
    return RefusedError("stream_id is " + Quoted(*fields.stream_id) + ", but this sampler is of " + Quoted(stream_id));
  }
  const std::string base = ToHex(session.stream().info().base_fingerprint);
  if (fields.base_fingerprint.value_or(base) != base) {
    return RefusedError("base_fingerprint is not that of this sampler's stream " + Quoted(stream_id) + ", " + base +
                        ": one of this name that began with other weights");
  }
  const std::string plan = ToHex(session.stream().layout().digest());
  if (fields.plan_digest.value_or(plan) != plan) return RefusedError("plan_digest is not this layout's, " + plan);
  if (fields.participants.empty()) return {};
  const SamplerIdentity& me = session.identity();
  const bool is_meant = std::ranges::any_of(fields.participants, [&](const Participant& participant) {
    return participant.pid == me.pid && participant.start_ticks == me.start_ticks && participant.engine_id == me.engine_id;
  });
  if (is_meant) return {};
  return RefusedError("participants do not name this process: it was started after the driver asked; ask for its info again");
}

// The target version that a request means, by number, by manifest, or both. Nothing: the newest.
Result<std::optional<uint64_t>> TargetOf(SamplerSession& session, const ControlFields& fields) {
  std::optional<uint64_t> target = fields.target_version;
  if (fields.manifest_path) {
    XORBIT_ASSIGN_OR_RETURN(const Manifest manifest, ReadNamedManifest(session.options().store_root, *fields.manifest_path,
                                                                       fields.manifest_sha256.value_or("")));
    const StreamInfo& stream = session.stream().info();
    if (!manifest.stream || manifest.stream->stream_id != stream.stream_id ||
        manifest.stream->base_fingerprint != stream.base_fingerprint) {
      return RefusedError("the manifest is of another stream");
    }
    if (target.value_or(manifest.stream->target_version) != manifest.stream->target_version) {
      return RefusedError("the manifest leads to version " + std::to_string(manifest.stream->target_version));
    }
    if (fields.base_version.value_or(manifest.stream->base_version) != manifest.stream->base_version) {
      return RefusedError("the manifest starts from version " + std::to_string(manifest.stream->base_version));
    }
    target = manifest.stream->target_version;
  }
  if (!target && !fields.wants_latest) return UsageError("say target_version, a number or \"latest\", or manifest_path");
  return target;
}

UpdateChoices ChoicesOf(const ControlFields& fields) {
  return {fields.release_state, fields.validate_payload_hash, fields.is_current};
}

}  // namespace

HttpReply HandleDeltaInfo(SamplerSession& session, const ControlFields& fields) {
  if (fields.engine_id.value_or(session.engine_id()) != session.engine_id()) {
    return Refusal(session,
                   RefusedError("engine_id is " + Quoted(*fields.engine_id) + ", but this is " + Quoted(session.engine_id())));
  }
  if (const Status held = session.ProveHeld(); !held.ok()) return Refusal(session, held);
  return ReplyOf(session, session.receipt());
}

HttpReply HandlePrepareDelta(SamplerSession& session, const ControlFields& fields) {
  const Result<SessionReceipt> receipt = [&]() -> Result<SessionReceipt> {
    XORBIT_RETURN_IF_ERROR(CheckBeliefs(session, fields));
    XORBIT_ASSIGN_OR_RETURN(std::optional<uint64_t> target, TargetOf(session, fields));
    if (!target) {
      XORBIT_ASSIGN_OR_RETURN(target, session.Newest());
    }
    return session.Prepare(
        {fields.session_id, fields.base_version, *target, std::chrono::milliseconds(fields.lease_ms), ChoicesOf(fields)});
  }();
  return ReplyOf(session, receipt);
}

HttpReply HandleDeltaStatus(SamplerSession& session, const ControlFields& fields) {
  return ReplyOf(session, session.StatusOf(fields.session_id));
}

HttpReply HandleApplyDelta(SamplerSession& session, const ControlFields& fields) {
  return ReplyOf(session, session.Apply(fields.session_id));
}

HttpReply HandleResumeDelta(SamplerSession& session, const ControlFields& fields) {
  return ReplyOf(session, session.Resume(fields.session_id, fields.keep_pause));
}

HttpReply HandleAbortDelta(SamplerSession& session, const ControlFields& fields) {
  return ReplyOf(session, session.Abort(fields.session_id));
}

HttpReply HandleUpdateFromDelta(SamplerSession& session, const ControlFields& fields) {
  const Result<SessionReceipt> receipt = [&]() -> Result<SessionReceipt> {
    XORBIT_RETURN_IF_ERROR(CheckBeliefs(session, fields));
    XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> target, TargetOf(session, fields));
    return session.UpdateTo(target, ChoicesOf(fields));
  }();
  return ReplyOf(session, receipt);
}

HttpReply HandleClearDelta(SamplerSession& session, const ControlFields& /*fields*/) {
  return ReplyOf(session, session.Clear());
}

}  // namespace xorbit
