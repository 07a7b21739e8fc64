#include "server/disk_engine.h"

#include "base/text.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLoading = "it is loading";

Status WithNote(const Status& status, std::string_view note) {
  return {status.code(), status.message() + "; " + std::string(note)};
}

Status StatusOf(const std::string& unknown) {
  if (unknown.empty()) return {};
  if (unknown == kLoading) return RefusedError("the engine is loading");
  return RefusedError("nobody knows what the engine holds: " + unknown + "; POST /update_weights_from_disk again");
}

}  // namespace

Status DiskEngine::Call(const EngineCall& call, std::chrono::milliseconds limit) const {
  return AskEngine(address_, call, Clock::now() + limit);
}

Status DiskEngine::Load(const std::string& path, uint64_t version, const ReloadOrder& order,
                        const std::function<Status()>& check) {
  const std::lock_guard load_lock(load_mutex_);
  const EngineCall load = LoadCall(options_.kind, path, version, order);
  if (options_.kind == EngineKind::kSglang) return LoadSglang(load, version, check);
  XORBIT_RETURN_IF_ERROR(CheckModel(path));
  return LoadVllm(load, version, order, check);
}

// vLLM loads its own model when it is asked to load again, and would say with reason that it has.
Status DiskEngine::CheckModel(const std::string& path) const {
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply,
                          CallEngineServer(address_, ModelQuestion(), Clock::now() + options_.call_limit));
  XORBIT_RETURN_IF_ERROR(CheckKey(ModelQuestion(), reply));
  const std::optional<std::string> model = ModelIn(reply);
  std::error_code error;
  if (!model || fs::equivalent(*model, path, error)) return {};
  return RefusedError("the engine loads what it was started with, " + Quoted(*model) + ", which is not " + Quoted(path) +
                      ": start it with that");
}

Status DiskEngine::LoadSglang(const EngineCall& load, uint64_t version, const std::function<Status()>& check) {
  Forget(std::string(kLoading));
  Status status = Call(load, options_.load_limit);
  if (status.ok()) status = check();
  if (status.ok()) status = Know(version, Status());
  if (!status.ok()) Forget(status.message());
  return status;
}

Status DiskEngine::LoadVllm(const EngineCall& load, uint64_t version, const ReloadOrder& order,
                            const std::function<Status()>& check) {
  const KvPolicy policy = order.abort_all_requests ? KvPolicy::kAbort : KvPolicy::kFlush;
  const Status paused = Call(PauseCall(options_.kind, policy), options_.call_limit);
  const bool is_held = IsHeld();
  if (!paused.ok() && (is_held || paused.code() == Code::kUnsupported)) return paused;
  if (!paused.ok()) {
    // Without a reply it may be paused all the same. It was not asked to load, so it may go on.
    const Status resumed = Call(ContinueCall(options_.kind), options_.call_limit);
    return resumed.ok() ? paused : WithNote(paused, "it may be paused, for " + resumed.message());
  }
  Forget(std::string(kLoading));
  // What fails from here on leaves it standing: nothing may be computed from weights, or with a cache, of another version.
  Status status = Call(load, options_.load_limit);
  if (status.ok()) status = check();
  if (status.ok() && order.flush_cache) status = Call(FlushCall(options_.kind), options_.call_limit);
  if (status.ok()) status = Know(version, Call(LabelCall(options_.kind, version), options_.call_limit));
  if (status.ok() && !is_held) status = Call(ContinueCall(options_.kind), options_.call_limit);
  if (status.ok()) return {};
  status = WithNote(status, "the engine is left paused");
  Forget(status.message());
  return status;
}

Status DiskEngine::Pause(const std::string& mode) {
  XORBIT_ASSIGN_OR_RETURN(const EngineCall call, PauseCallNamed(options_.kind, mode));
  XORBIT_RETURN_IF_ERROR(Call(call, options_.call_limit));
  Hold(true);
  return {};
}

Status DiskEngine::Continue() {
  const std::unique_lock load_lock(load_mutex_, std::try_to_lock);
  if (!load_lock) return RefusedError("the engine is loading: it goes on by itself");
  XORBIT_RETURN_IF_ERROR(StatusOf(Copy().unknown));
  XORBIT_RETURN_IF_ERROR(Call(ContinueCall(options_.kind), options_.call_limit));
  Hold(false);
  return {};
}

void DiskEngine::Hold(bool is_held) {
  const std::lock_guard lock(mutex_);
  is_held_ = is_held;
}

bool DiskEngine::IsHeld() const {
  const std::lock_guard lock(mutex_);
  return is_held_;
}

Status DiskEngine::FlushCache() const { return Call(FlushCall(options_.kind), options_.call_limit); }

// Nothing if it names none; an error if that is not known now.
Result<std::optional<std::string>> DiskEngine::AskLabel(HttpDeadline deadline) const {
  const EngineCall question = LabelQuestion(options_.kind);
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply, CallEngineServer(address_, question, deadline));
  return LabelIn(question, reply);
}

// The engine has said that it has loaded. A label that it could not be told is no reason to stand still; one that it was told
// it must name when it is asked, if it names any.
Status DiskEngine::Know(uint64_t version, const Status& labelled) {
  Knowledge known;
  known.version = version;
  known.was_told = labelled.ok();
  known.label_error = labelled.message();
  known.unknown.clear();
  if (known.was_told) {
    const auto label = AskLabel(Clock::now() + options_.call_limit);
    known.names_version = label.ok() ? label->has_value() : names_version();
    if (!label.ok()) known.label_error = label.status().message();
    if (label.ok() && *label && **label != std::to_string(version)) {
      return RefusedError("the engine was told that it has loaded version " + std::to_string(version) + ", and names " +
                          Quoted(**label));
    }
  }
  const std::lock_guard lock(mutex_);
  known.change_count = known_.change_count + 1;
  known_ = known;
  return {};
}

void DiskEngine::Forget(const std::string& why) {
  const std::lock_guard lock(mutex_);
  known_.unknown = why;
  known_.is_lost = false;
  ++known_.change_count;
}

// Notes what the engine's answer has changed of what is known. It is lost if it is another engine, or may be by the time it
// answers again; an answer that does not tell changes nothing.
Status DiskEngine::Probe(Knowledge* known) const {
  const Clock::time_point deadline = Clock::now() + options_.probe_limit;
  const auto connected = HttpSocket::Connect(options_.endpoint.address, options_.endpoint.port, deadline);
  if (!connected.ok()) {
    if (!known->names_version) known->is_lost = true;  // one that names its version is known again by that
    return connected.status().WithContext("the engine is not there");
  }
  if (!known->was_told) return {};
  const auto label = AskLabel(deadline);
  if (!label.ok()) {
    known->label_error = label.status().message();
    return known->names_version ? label.status() : Status();
  }
  known->label_error.clear();
  if (*label == std::to_string(known->version)) {
    known->names_version = true;
    known->is_lost = false;
    return {};
  }
  if (!*label && !known->names_version) return {};
  known->is_lost = true;
  return RefusedError("the engine has loaded version " + std::to_string(known->version) + " and now names " +
                      (*label ? Quoted(**label) : std::string("none")) + ": it was restarted, or loaded by somebody else");
}

// What a probe has shown, unless the engine was made to load meanwhile.
Status DiskEngine::Learn(Knowledge* probed, const Status& answered) {
  if (!probed->is_lost) probed->unknown.clear();
  if (probed->is_lost && probed->unknown.empty()) probed->unknown = answered.message();
  const std::lock_guard lock(mutex_);
  if (probed->change_count != known_.change_count) return StatusOf(known_.unknown);
  known_ = *probed;
  return probed->is_lost ? StatusOf(probed->unknown) : answered;
}

Status DiskEngine::Readiness() {
  const Clock::time_point arrived = Clock::now();
  if (const Knowledge known = Copy(); !known.unknown.empty() && !known.is_lost) return StatusOf(known.unknown);
  const std::lock_guard asking(probe_mutex_);
  Knowledge known = Copy();
  if (!known.unknown.empty() && !known.is_lost) return StatusOf(known.unknown);
  if (answer_ && answer_->change_count == known.change_count && arrived < answer_->ended + options_.answer_kept) {
    return answer_->status;
  }
  const Status answered = Probe(&known);
  const Status status = Learn(&known, answered);
  answer_ = Answer{Clock::now(), known.change_count, status};
  return status;
}

DiskEngine::Knowledge DiskEngine::Copy() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

std::optional<uint64_t> DiskEngine::version() const {
  const Knowledge known = Copy();
  return known.unknown.empty() ? std::optional(known.version) : std::nullopt;
}

bool DiskEngine::names_version() const { return Copy().names_version; }

std::string DiskEngine::label_error() const { return Copy().label_error; }

}  // namespace xorbit
