#include "store/stream.h"

#include <algorithm>

#include "base/text.h"
#include "payload/json_fields.h"
#include "store/checked_text.h"
#include "store/head_hint.h"
#include "store/stream_state.h"

namespace xorbit {
namespace {

// The streams of a store: folders that hold a stream.json.
Result<std::vector<std::string>> StreamIds(ObjectStore& store) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.List(""));
  std::vector<std::string> ids;
  for (const ObjectInfo& object : objects) {
    const std::string id = object.key.substr(0, object.key.find('/'));
    if (object.key == StreamInfoKey(id)) ids.push_back(id);
  }
  return ids;
}

Result<std::string> OnlyStreamId(ObjectStore& store) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<std::string> ids, StreamIds(store));
  if (ids.empty()) return NotFoundError("the store holds no stream");
  if (ids.size() == 1) return ids[0];
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 5); ++i) names += (i == 0 ? "" : ", ") + ids[i];
  return UsageError("the store holds " + std::to_string(ids.size()) + " streams (" + names + "): name one");
}

Result<Layout> ReadLayout(ObjectStore& store, const StreamInfo& info) {
  const std::string key = LayoutKey(info.stream_id, info.layout_sha256);
  XORBIT_ASSIGN_OR_RETURN(const Buffer text, store.Get(key, kMaxLayoutBytes));
  if (Sha256Of(text) != info.layout_sha256) return CorruptError(key + ": does not match its SHA-256");
  auto layout = ParseLayoutJson(AsText(text), info.layout_digest);
  if (!layout.ok()) return layout.status().WithContext(key);
  return layout;
}

// What stream.json alone decides: the stream begins with version 0.
VersionRecord FirstRecord(const StreamInfo& info) {
  VersionRecord first;
  first.decision = Decision::kCommitted;
  first.target = info.base;
  first.layout_digest = info.layout_digest;
  return first;
}

}  // namespace

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

const StreamInfo& Stream::info() const { return state_->info; }
const Layout& Stream::layout() const { return state_->layout; }
ObjectStore& Stream::store() const { return state_->store; }

Result<Stream> Stream::Create(ObjectStore& store, const StreamInfo& info, const Layout& layout) {
  if (!IsSafeId(info.stream_id)) {
    return UsageError("a stream's id must be 1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'");
  }
  if (info.layout_digest != layout.digest()) return UsageError("the layout is not the one that the stream names");
  const Result<ObjectInfo> decided = store.Stat(VersionRecordKey(info.stream_id, 0));
  const Result<ObjectInfo> described = store.Stat(StreamInfoKey(info.stream_id));
  if (decided.ok() && described.status().code() == Code::kNotFound) {
    return CorruptError(StreamInfoKey(info.stream_id) +
                        " is missing, although version 0 is decided: restore it from a copy, or begin a new stream");
  }
  const std::string layout_text = WriteLayoutJson(layout);
  StreamInfo described_info = info;
  described_info.layout_sha256 = Sha256Of(AsBytes(layout_text));
  XORBIT_RETURN_IF_ERROR(store.PutNew(LayoutKey(info.stream_id, described_info.layout_sha256), AsBytes(layout_text)));
  XORBIT_RETURN_IF_ERROR(PutText(store, StreamInfoKey(info.stream_id), WriteStreamInfo(described_info)));
  return Finish(store, info.stream_id);
}

Result<Stream> Stream::Finish(ObjectStore& store, std::string_view stream_id) {
  XORBIT_ASSIGN_OR_RETURN(const Stream stream, ReadDescription(store, stream_id));
  const std::string& id = stream.info().stream_id;
  XORBIT_RETURN_IF_ERROR(PutText(store, VersionRecordKey(id, 0), WriteVersionRecord(FirstRecord(stream.info()))));
  return Open(store, id);
}

Result<Stream> Stream::ReadDescription(ObjectStore& store, std::string_view stream_id) {
  std::string id(stream_id);
  if (id.empty()) {
    XORBIT_ASSIGN_OR_RETURN(id, OnlyStreamId(store));
  }
  if (!IsSafeId(id)) return UsageError("a stream's id is letters, digits, '.', '_' and '-', not beginning with '.'");
  const Result<std::string> text = GetText(store, StreamInfoKey(id), kMaxStreamInfoBytes);
  if (!text.ok() && text.status().code() == Code::kNotFound) return NotFoundError("the store holds no stream '" + id + "'");
  if (!text.ok()) return text.status();
  auto info = ParseStreamInfo(*text);
  if (!info.ok()) return info.status().WithContext(StreamInfoKey(id));
  if (info->stream_id != id) return CorruptError(StreamInfoKey(id) + " is of another stream");
  XORBIT_ASSIGN_OR_RETURN(Layout layout, ReadLayout(store, *info));
  return Stream(std::make_unique<State>(store, std::move(info).value(), std::move(layout)));
}

Result<Stream> Stream::Open(ObjectStore& store, std::string_view stream_id) {
  XORBIT_ASSIGN_OR_RETURN(Stream stream, ReadDescription(store, stream_id));
  const std::string& id = stream.info().stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> first, stream.Record(0));
  if (!first) return NotFoundError("stream '" + id + "' was never finished: publish into it");
  if (*first != FirstRecord(stream.info())) return CorruptError(VersionRecordKey(id, 0) + " does not fit its stream");
  return stream;
}

Result<std::optional<VersionRecord>> Stream::ReadRecord(uint64_t version) const {
  if (version > kMaxVersion) return std::optional<VersionRecord>();
  const std::string key = VersionRecordKey(state_->info.stream_id, version);
  const Result<std::string> text = GetText(state_->store, key, kMaxVersionRecordBytes);
  if (!text.ok() && text.status().code() == Code::kNotFound) return std::optional<VersionRecord>();
  if (!text.ok()) return text.status();
  auto record = ParseVersionRecord(*text);
  if (!record.ok()) return record.status().WithContext(key);
  if (record->version != version) return CorruptError(key + " is of version " + std::to_string(record->version));
  if (record->committed() && record->layout_digest != state_->layout.digest())
    return RefusedError(key + " is for another layout");
  // Whoever wrote it may have died before it was on disk; nobody acts on a decision that a power cut could take back.
  XORBIT_RETURN_IF_ERROR(state_->store.Sync(key));
  return std::optional(std::move(record).value());
}

Result<std::optional<VersionRecord>> Stream::Record(uint64_t version) {
  {
    const std::lock_guard lock(state_->mutex);
    const auto known = state_->records.find(version);
    if (known != state_->records.end()) return std::optional(known->second);
  }
  XORBIT_ASSIGN_OR_RETURN(std::optional<VersionRecord> record, ReadRecord(version));
  if (!record) return record;
  const std::lock_guard lock(state_->mutex);
  state_->records.insert({version, *record});
  return record;
}

// Decided versions have no gaps (Decide sees to it), so the last one is found by doubling and halving: from the hint if there
// is one that holds, else from what is known.
Status Stream::FindDecided() {
  uint64_t known = 0;
  uint64_t forgotten_count = 0;
  {
    const std::lock_guard lock(state_->mutex);
    known = state_->decided_through;
    forgotten_count = state_->forgotten_count;
  }
  const auto is_decided = [this](uint64_t version) -> Result<bool> {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, Record(version));
    return record.has_value();
  };
  const Result<std::string> text = GetText(state_->store, HeadKey(state_->info.stream_id), kMaxHeadHintBytes);
  const Result<uint64_t> hint = text.ok() ? ParseHeadHint(*text) : Result<uint64_t>(text.status());
  if (hint.ok() && *hint > known) {
    XORBIT_ASSIGN_OR_RETURN(const bool holds, is_decided(*hint));
    if (holds) known = *hint;
  }
  uint64_t step = 1;
  uint64_t undecided = known + 1;
  for (;;) {
    XORBIT_ASSIGN_OR_RETURN(const bool decided, is_decided(undecided));
    if (!decided) break;
    known = undecided;
    step *= 2;
    undecided = known + step;
  }
  while (undecided - known > 1) {
    const uint64_t middle = known + (undecided - known) / 2;
    XORBIT_ASSIGN_OR_RETURN(const bool decided, is_decided(middle));
    (decided ? known : undecided) = middle;
  }
  const std::lock_guard lock(state_->mutex);
  if (state_->forgotten_count == forgotten_count) state_->decided_through = std::max(state_->decided_through, known);
  return {};
}

Result<uint64_t> Stream::NextFree() {
  XORBIT_RETURN_IF_ERROR(FindDecided());
  const std::lock_guard lock(state_->mutex);
  return state_->decided_through + 1;
}

// Where nothing new is found, what was known is asked for again: so whoever polls a stream notices that it was rewritten.
Result<uint64_t> Stream::Newest() {
  constexpr int kMaxAttempts = 3;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    uint64_t known = 0;
    {
      const std::lock_guard lock(state_->mutex);
      known = state_->decided_through;
    }
    XORBIT_ASSIGN_OR_RETURN(uint64_t version, NextFree());
    VersionRecord record;
    do {
      XORBIT_ASSIGN_OR_RETURN(record, DecidedRecord(--version));
    } while (!record.committed());  // version 0 is, or Open would have failed
    if (version > known) return version;
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> anew, RecordAnew(version));
    if (anew == record) return version;
  }
  return IoError("stream " + Quoted(state_->info.stream_id) + " is being rewritten: try again");
}

// Whoever walks over versions walks over records that are there: a record with a number of many digits costs nobody a walk over
// all numbers below it.
Result<VersionRecord> Stream::DecidedRecord(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(std::optional<VersionRecord> record, Record(version));
  if (record) return std::move(*record);
  return CorruptError(VersionRecordKey(state_->info.stream_id, version) +
                      " is missing, although a later version is decided: restore it, or begin a new stream");
}

Result<std::vector<uint64_t>> Stream::CommittedVersions(uint64_t newest) {
  std::vector<uint64_t> committed;
  for (uint64_t version = 0; version <= newest; ++version) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, DecidedRecord(version));
    if (record.committed()) committed.push_back(version);
  }
  return committed;
}

Result<VersionRecord> Stream::CommittedRecord(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(std::optional<VersionRecord> record, Record(version));
  if (!record) return RefusedError("version " + std::to_string(version) + " is not decided");
  if (!record->committed()) return RefusedError("version " + std::to_string(version) + " was aborted");
  return std::move(*record);
}

}  // namespace xorbit
