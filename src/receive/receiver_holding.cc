// What live memory holds, and how a receiver knows: on attach, after a former life, when the engine has moved its weights, and
// whenever it is asked.
#include "receive/receiver.h"
#include "tensor/live_proofs.h"

namespace xorbit {
namespace {

// Whether every frozen tensor that is not absent has a place here; ranks of a cohort and small receivers may leave them out.
bool PlacesFrozen(const Layout& layout, const LiveMap& map) {
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (!tensor.frozen || tensor.byte_count == 0) continue;
    const uint32_t placed = map.alias_of(i).value_or(i);
    if (map.is_absent(tensor.group)) return false;
    if (map.pieces_of(placed).empty() && !std::ranges::binary_search(map.kept_tensors(), placed)) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Receiver>> Receiver::Attach(Stream& stream, const Backend& backend, const LiveMemory& live,
                                                   Engine& engine, CohortMember& cohort, const ReceiverOptions& options,
                                                   uint64_t version) {
  std::unique_ptr<Receiver> receiver(new Receiver(stream, backend, live, engine, cohort, options));  // tidy-allow: private
  XORBIT_RETURN_IF_ERROR(options.undo_memory.empty() ? receiver->Identify(version) : receiver->Recover(version));
  receiver->NoteHolding();
  XORBIT_ASSIGN_OR_RETURN(const std::optional<CohortStanding> standing, cohort.Join());
  if (standing) XORBIT_RETURN_IF_ERROR(receiver->CatchUp(*standing));
  receiver->throttle_ = options.throttle;
  XORBIT_RETURN_IF_ERROR(
      engine.Resume(receiver->version_, std::chrono::steady_clock::now() + options.resume_deadline).WithContext("resume"));
  return receiver;
}

Status Receiver::CheckMap() const {
  const LiveMap& map = *live_.map;
  if (map.layout_digest() != stream_.layout().digest()) {
    return RefusedError("the live map was made for another layout than the stream's");
  }
  XORBIT_RETURN_IF_ERROR(ProveSingleWriter(stream_.layout(), map));
  XORBIT_RETURN_IF_ERROR(CheckRegions(map, live_.regions));
  if (cohort_.partial()) return {};  // the ranks' digests show it, whenever they prepare
  const LiveMap* const alone[] = {&map};
  return ProveCohortCoverage(stream_.layout(), alone);
}

Result<Receiver::Holding> Receiver::Scan() const {
  const auto scan = [&](ScanScope scope) {
    return backend_.ScanLive(stream_.layout(), live_, scope, options_.threads, throttle_);
  };
  XORBIT_ASSIGN_OR_RETURN(const StateDigest all, scan(ScanScope::kAll));
  XORBIT_ASSIGN_OR_RETURN(const StateDigest frozen, scan(ScanScope::kFrozen));
  return Holding{all - frozen, frozen};
}

bool Receiver::LacksGroups() const {
  for (uint32_t group = 0; group < stream_.layout().groups().size(); ++group) {
    if (live_.map->is_absent(group)) return true;
  }
  return false;
}

// What all ranks together count of a version, frozen tensors left out. Nothing if nobody can know, for groups are absent.
Result<std::optional<StateDigest>> Receiver::UpdatedDigestOf(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, stream_.Record(version));
  if (!record || !record->committed()) return RefusedError(VersionName(version) + " is not a committed version of the stream");
  if (LacksGroups()) return std::optional<StateDigest>();
  return std::optional<StateDigest>(record->target - stream_.info().frozen);
}

Status Receiver::Identify(uint64_t version) {
  XORBIT_RETURN_IF_ERROR(CheckMap());
  XORBIT_ASSIGN_OR_RETURN(const std::optional<StateDigest> whole, UpdatedDigestOf(version));
  XORBIT_ASSIGN_OR_RETURN(const Holding held, Scan());
  if (!cohort_.partial()) {
    if (whole && held.updated != *whole) {
      return RefusedError("live weights are not " + VersionName(version) + ": their digest is " + ToText(held.updated) +
                          ", not " + ToText(*whole));
    }
    if (PlacesFrozen(stream_.layout(), *live_.map) && held.frozen != stream_.info().frozen) {
      return RefusedError("frozen tensors in live memory are not those of the stream");
    }
  }
  XORBIT_RETURN_IF_ERROR(NoteLive(version));
  holding_ = held;
  holding_epoch_ = live_.map->epoch();
  return {};
}

Status Receiver::NoteLive(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream_.CommittedRecord(version));
  version_ = version;
  held_state_ = record.target;
  return {};
}

void Receiver::NoteHolding() {
  if (undo_) undo_->Seal(UndoRecordOf(live_, {version_, version_, holding_.updated, holding_.updated, holding_.frozen}), 0);
}

// What a former life of this receiver has left decides which version live memory holds; `version` only if it has left nothing.
Status Receiver::Recover(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(undo_, UndoMemory::Open(options_.undo_memory));
  if (!undo_->record()) return Identify(version);
  XORBIT_RETURN_IF_ERROR(backend_.RollBack(stream_.layout(), live_, &*undo_, options_.threads));
  const UndoRecord left = *undo_->record();
  const bool is_done = left.state == UndoState::kDone;
  const UndoVersions& versions = left.versions;
  const Status found = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(Identify(is_done ? versions.to : versions.from));
    // Of a rank this is all that proves it. Another map may count other replicas.
    if (left.epoch != live_.map->epoch() || holding_ == Holding{is_done ? versions.after : versions.before, versions.frozen})
      return {};
    return WrittenByOthers();
  }();
  if (found.code() == Code::kRefused) {
    return found.WithContext(
        "live memory is not what undo memory says (or is this another stream than the engine's?): load a checkpoint and set "
        "undo memory to zero");
  }
  XORBIT_RETURN_IF_ERROR(found);
  // Whether the engine has followed the last change of its weights is not known.
  callbacks_.clear();
  for (const DerivedBinding& derived : live_.map->derived()) AddCallback(derived.callback);
  return RefreshDerived();
}

Status Receiver::WrittenByOthers() const {
  return RefusedError("live weights are not " + VersionName(version_) + ": somebody else has written to them");
}

// The engine has moved its weights: proves the new map, and that nothing was lost on the way as far as one rank can tell.
Status Receiver::FollowEpoch() {
  if (live_.map->epoch() == holding_epoch_) return {};
  XORBIT_RETURN_IF_ERROR(Identify(version_).WithContext("after the engine moved its weights"));
  NoteHolding();
  return {};
}

// Alone, as the cohort has gone on without this rank; the engine stands still. What live memory held at the last commit proves
// the result.
Status Receiver::CatchUp(const CohortStanding& standing) {
  while (version_ != standing.version) {
    XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, PlanRoute(standing.version));
    XORBIT_RETURN_IF_ERROR(FetchRoute(route));
    XORBIT_RETURN_IF_ERROR(PreparePayloads());
    XORBIT_RETURN_IF_ERROR(prepared_->Apply());
    XORBIT_RETURN_IF_ERROR(RefreshDerived());
    prepared_->Settle();
    XORBIT_RETURN_IF_ERROR(NoteLive(staged_->to));
    holding_.updated += prepared_->report().change;
    Release();
  }
  if (holding_.updated == standing.state) return {};
  return RefusedError("caught up with " + VersionName(standing.version) +
                      ", but live weights are not what this rank held when the cohort committed it: reload the checkpoint");
}

Status Receiver::Verify() {
  if (state_ != SyncState::kIdle && state_ != SyncState::kPrepared) {
    return UsageError("live weights cannot be verified while the receiver is " + std::string(NameOf(state_)));
  }
  XORBIT_RETURN_IF_ERROR(engine_.CheckReach());
  XORBIT_RETURN_IF_ERROR(FollowEpoch());
  XORBIT_ASSIGN_OR_RETURN(const Holding held, Scan());
  if (held == holding_) return {};
  return Break(WrittenByOthers());
}

}  // namespace xorbit
