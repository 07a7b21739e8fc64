// Decisions are compared with what was seen; versions are rebuilt by XOR, one element at a time, from the base.
#include "fault_campaign/judge.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "fault_campaign/actors.h"
#include "store/fetch.h"
#include "transport/folder_store.h"

namespace xorbit::fault_campaign {
namespace {

// XORs what a delta changes into whole tensors, one element at a time.
Status XorInto(const Backend& backend, const Delta& delta, const std::vector<MutableBytes>& tensors) {
  for (const PayloadView& payload : delta.payloads) {
    for (const PayloadSegment& segment : payload.segments) {
      XORBIT_ASSIGN_OR_RETURN(const auto decoder, backend.Open(payload, segment));
      const uint64_t unit_bytes = segment.map.unit_bytes();
      DecodedRecord record;
      for (uint64_t i = 0; i < decoder->record_count(); ++i) {
        XORBIT_RETURN_IF_ERROR(decoder->Decode(i, &record));
        for (uint64_t c = 0; c < record.count; ++c) {
          const Run run = RunAt(segment.map, decoder->info(i).first + record.offsets[c]);
          uint8_t* const element = tensors[run.tensor_index].data() + run.tensor_element * unit_bytes;
          for (uint64_t b = 0; b < unit_bytes; ++b) element[b] ^= record.xors[c * unit_bytes + b];
        }
      }
    }
  }
  return {};
}

Status Walk(Stream& stream, const Backend& backend, uint64_t from, uint64_t to, const std::vector<MutableBytes>& tensors) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(from, to));
  for (const Hop& hop : route) {
    XORBIT_ASSIGN_OR_RETURN(const Delta delta, FetchDelta(stream, hop.edge, {}));
    XORBIT_RETURN_IF_ERROR(XorInto(backend, delta, tensors));
  }
  return {};
}

bool Equal(const std::vector<MutableBytes>& have, const std::vector<ConstBytes>& want) {
  return std::ranges::equal(have, want, [](ConstBytes a, ConstBytes b) { return std::ranges::equal(a, b); });
}

}  // namespace

std::vector<std::string> LostDecisions(const Board& board, const fs::path& store) {
  const auto folder = OpenFolderStore(PosixFileOps(), store);
  if (!folder.ok()) return {folder.status().message()};
  Result<Stream> stream = Stream::Open(**folder, "run");
  if (!stream.ok()) return {stream.status().message()};
  Board found{};
  std::vector<std::string> lost;
  for (uint64_t version = 0; version < kMaxVersions; ++version) {
    const uint64_t seen = board.decisions[version];
    if (seen == 0) continue;
    const auto record = stream->Record(version);
    if (record.ok() && *record) NoteDecision(found, **record);
    if (found.decisions[version] == seen) continue;
    lost.push_back("the decision on version " + std::to_string(version) + " is gone or changed: " + record.status().message());
  }
  return lost;
}

std::vector<std::string> UnreadableVersions(const Model& model, const fs::path& store) {
  const auto folder = OpenFolderStore(PosixFileOps(), store);
  if (!folder.ok()) return {folder.status().message()};
  Result<Stream> stream = Stream::Open(**folder, "run");
  if (!stream.ok()) return {stream.status().message()};
  const Result<uint64_t> newest = stream->Newest();
  if (!newest.ok()) return {newest.status().message()};
  std::vector<VersionRecord> kept;
  for (uint64_t version = *newest; version > 0 && kept.size() < kKeptVersions; --version) {
    const auto record = stream->Record(version);
    if (record.ok() && *record && (*record)->committed()) kept.push_back(**record);
    if (!record.ok()) return {record.status().message()};
  }
  std::vector<std::string> unreadable;
  std::vector<Buffer> tensors;
  std::vector<MutableBytes> views;
  for (const ConstBytes bytes : model.base()) tensors.emplace_back(bytes.begin(), bytes.end());
  for (Buffer& bytes : tensors) views.emplace_back(bytes);
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  uint64_t at = 0;
  for (const VersionRecord& record : kept) {  // newest first: that is where a way must lead from the base
    const Status walked = Walk(*stream, *backend, at, record.version, views);
    if (!walked.ok() || !Equal(views, model.state(record))) {
      unreadable.push_back("version " + std::to_string(record.version) + " from " + std::to_string(at) + ": " +
                           (walked.ok() ? "other bytes than were published" : walked.message()));
      if (at == 0) break;
      continue;
    }
    at = record.version;
  }
  return unreadable;
}

}  // namespace xorbit::fault_campaign
