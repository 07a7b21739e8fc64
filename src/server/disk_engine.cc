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

// Nothing if it does not say.
Result<std::optional<std::string>> DiskEngine::AskLabel(std::chrono::milliseconds limit) const {
  const EngineCall question = LabelQuestion(options_.kind);
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply, CallEngineServer(address_, question, Clock::now() + limit));
  XORBIT_RETURN_IF_ERROR(CheckKey(question, reply));
  return LabelIn(reply);
}

// The engine has said that it has loaded. A label that it could not be told is no reason to stand still; one that it was told
// it must name when it is asked, if it names any.
Status DiskEngine::Know(uint64_t version, const Status& labelled) {
  Knowledge known;
  known.version = version;
  known.label_error = labelled.message();
  known.unknown.clear();
  if (labelled.ok()) {
    const auto label = AskLabel(options_.call_limit);
    known.names_version = label.ok() && label->has_value();
    if (!label.ok()) known.label_error = label.status().message();
    if (known.names_version && **label != std::to_string(version)) {
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
  ++known_.change_count;
}

// `is_lost`: it is another engine, or may be by the time it answers again.
Status DiskEngine::Probe(const Knowledge& known, bool* is_lost) const {
  const Clock::time_point deadline = Clock::now() + options_.probe_limit;
  const auto connected = HttpSocket::Connect(options_.endpoint.address, options_.endpoint.port, deadline);
  if (!connected.ok()) {
    *is_lost = !known.names_version;  // one that names its version is known again by that
    return connected.status().WithContext("the engine is not there");
  }
  if (!known.names_version) return {};
  XORBIT_ASSIGN_OR_RETURN(const auto label, AskLabel(options_.probe_limit));
  if (label == std::to_string(known.version)) return {};
  *is_lost = true;
  return RefusedError("the engine has loaded version " + std::to_string(known.version) + " and now names " +
                      (label ? Quoted(*label) : std::string("none")) + ": it was restarted, or loaded by somebody else");
}

Status DiskEngine::Readiness() {
  const Knowledge known = Copy();
  XORBIT_RETURN_IF_ERROR(StatusOf(known.unknown));
  bool is_lost = false;
  const Status status = Probe(known, &is_lost);
  if (status.ok() || !is_lost) return status;
  const std::lock_guard lock(mutex_);
  if (known.change_count != known_.change_count) return StatusOf(known_.unknown);  // it was made to load meanwhile
  known_.unknown = status.message();
  ++known_.change_count;
  return StatusOf(known_.unknown);
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
