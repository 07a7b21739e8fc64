// A stream whose store was put back to an older copy, and perhaps published into again: the numbers of versions that somebody
// holds are given to other weights. No protocol prevents it, for the store itself has forgotten; so whoever holds a version
// asks now and then whether it is still the one that it was. One record tells: a version that was decided anew before it, or is
// no more, has taken all later ones along.
#include "base/text.h"
#include "store/stream_state.h"

namespace xorbit {

// A folder that is not mounted has forgotten nothing.
Status Stream::CheckPresence() const {
  const Result<ObjectInfo> described = state_->store.Stat(StreamInfoKey(state_->info.stream_id));
  if (described.ok()) return {};
  if (described.status().code() != Code::kNotFound) return described.status();
  return IoError("the store holds no stream " + Quoted(state_->info.stream_id) + " any more");
}

Result<std::optional<VersionRecord>> Stream::RecordAnew(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(std::optional<VersionRecord> record, ReadRecord(version));
  if (!record) XORBIT_RETURN_IF_ERROR(CheckPresence());
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->records.find(version);
  if (known != state_->records.end() && record != known->second) state_->ForgetLocked();
  if (record) state_->records.insert({version, *record});
  return record;
}

Status Stream::CheckHeld(uint64_t version, const StateDigest& state) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, Record(version));
  if (record && record->committed() && record->target == state) return {};
  const std::string stream = "stream " + Quoted(state_->info.stream_id);
  const std::string number = "version " + std::to_string(version);
  const std::string advice = "start this process again, from a checkpoint that is a version of the stream";
  if (record) return RefusedError(stream + " was rewritten: its " + number + " is another state than is held here; " + advice);
  XORBIT_RETURN_IF_ERROR(CheckPresence());
  return RefusedError(stream + " has gone back behind " + number + ", which is held here: restore " +
                      VersionRecordKey(state_->info.stream_id, version) + ", or " + advice);
}

Status Stream::ProveHeld(uint64_t version, const StateDigest& state) {
  XORBIT_RETURN_IF_ERROR(RecordAnew(version).status());
  return CheckHeld(version, state);
}

}  // namespace xorbit
