#include "backend/cpu/payload_apply.h"

#include <mutex>
#include <string>

#include "backend/cpu/record_apply.h"
#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/text.h"

namespace xorbit {
namespace {

struct OpenedSegment {
  const PayloadSegment* segment;
  std::unique_ptr<SegmentDecoder> decoder;
};

Result<std::vector<OpenedSegment>> OpenAll(const Backend& backend, const PayloadView& payload) {
  std::vector<OpenedSegment> opened;
  opened.reserve(payload.segments.size());
  for (const PayloadSegment& segment : payload.segments) {
    XORBIT_ASSIGN_OR_RETURN(auto decoder, backend.Open(payload, segment));
    opened.push_back({&segment, std::move(decoder)});
  }
  return opened;
}

Status LiveDiffers(const Layout& layout, const SegmentMap& map, const RecordInfo& info) {
  const Run run = RunAt(map, info.first);
  return RefusedError("live weights are not the state this delta starts from: tensor " +
                      Quoted(layout.tensors()[run.tensor_index].name) + " differs at or after element " +
                      std::to_string(run.tensor_element));
}

// The sums a record must show when the delta is taken in `direction`.
bool Matches(const RecordInfo& info, Direction direction, const ChangeDigest& found) {
  const bool forward = direction == Direction::kForward;
  return found.before == (forward ? info.before : info.after) && found.after == (forward ? info.after : info.before);
}

// A report to which several threads add.
class SharedReport {
 public:
  void Add(const DecodedRecord& record, const ChangeDigest& found) {
    const std::lock_guard lock(mutex_);
    report_.change_count += record.count;
    report_.record_count += 1;
    report_.digest += found;
  }
  // Once all threads are done.
  const ApplyReport& Get() const { return report_; }

 private:
  std::mutex mutex_;  // guards report_
  ApplyReport report_;
};

// Runs body(record index, scratch) over all records of a segment; scratch belongs to the calling thread.
template <typename Body>
Status ForEachRecord(const OpenedSegment& opened, int threads, Body&& body) {
  // Records are handed out in stretches, so that scratch memory is allocated once per stretch and neighbours share cache lines.
  constexpr uint64_t kStretch = 16;
  const uint64_t record_count = opened.decoder->record_count();
  return ParallelFor(threads, DivideRoundUp(record_count, kStretch), [&](uint64_t stretch) -> Status {
    DecodedRecord scratch;
    const uint64_t end = std::min(record_count, (stretch + 1) * kStretch);
    for (uint64_t index = stretch * kStretch; index < end; ++index) XORBIT_RETURN_IF_ERROR(body(index, &scratch));
    return {};
  });
}

// XORs back the records marked in `applied`. Decoding succeeded moments ago, so a failure here means failing memory.
Status Undo(const std::vector<OpenedSegment>& opened, std::span<const uint64_t> tensor_keys,
            const std::vector<std::vector<uint8_t>>& applied, MutableTensorBytes live) {
  DecodedRecord scratch;
  for (size_t s = 0; s < opened.size(); ++s) {
    for (uint64_t index = 0; index < applied[s].size(); ++index) {
      if (applied[s][index] == 0) continue;
      XORBIT_RETURN_IF_ERROR(opened[s].decoder->Decode(index, &scratch).WithContext("undo failed, reload the weights"));
      XorRecord(opened[s].segment->map, tensor_keys, opened[s].decoder->info(index), scratch, live, /*with_digest=*/false);
    }
  }
  return {};
}

}  // namespace

Result<ApplyReport> PreflightPayload(const Backend& backend, const Layout& layout, const PayloadView& payload, TensorBytes live,
                                     Direction direction, int threads) {
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<OpenedSegment> opened, OpenAll(backend, payload));
  SharedReport report;
  for (const OpenedSegment& one : opened) {
    const SegmentMap& map = one.segment->map;
    XORBIT_RETURN_IF_ERROR(ForEachRecord(one, threads, [&](uint64_t index, DecodedRecord* scratch) -> Status {
      XORBIT_RETURN_IF_ERROR(one.decoder->Decode(index, scratch));
      const RecordInfo info = one.decoder->info(index);
      const ChangeDigest found = WeighRecord(map, tensor_keys, info, *scratch, live);
      if (payload.has_digests() && !Matches(info, direction, found)) return LiveDiffers(layout, map, info);
      report.Add(*scratch, found);
      return {};
    }));
  }
  const StateDigest change = direction == Direction::kForward ? payload.change() : StateDigest{} - payload.change();
  if (payload.has_digests() && report.Get().digest.change() != change) {
    return RefusedError("live weights are not the state this delta starts from: the digests of the whole change do not agree");
  }
  return report.Get();
}

Result<ApplyReport> ApplyPayload(const Backend& backend, const Layout& layout, const PayloadView& payload,
                                 MutableTensorBytes live, Direction direction, int threads) {
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<OpenedSegment> opened, OpenAll(backend, payload));
  SharedReport report;
  std::vector<std::vector<uint8_t>> applied;  // per segment and record; each entry is written by one worker
  applied.reserve(opened.size());
  for (const OpenedSegment& one : opened) applied.emplace_back(one.decoder->record_count(), uint8_t{0});

  Status status;
  for (size_t s = 0; s < opened.size() && status.ok(); ++s) {
    const SegmentMap& map = opened[s].segment->map;
    status = ForEachRecord(opened[s], threads, [&](uint64_t index, DecodedRecord* scratch) -> Status {
      XORBIT_RETURN_IF_ERROR(opened[s].decoder->Decode(index, scratch));
      const RecordInfo info = opened[s].decoder->info(index);
      const ChangeDigest found = XorRecord(map, tensor_keys, info, *scratch, live, payload.has_digests());
      applied[s][index] = 1;
      if (payload.has_digests() && !Matches(info, direction, found)) return LiveDiffers(layout, map, info);
      report.Add(*scratch, found);
      return {};
    });
  }
  if (status.ok()) return report.Get();
  XORBIT_RETURN_IF_ERROR(Undo(opened, tensor_keys, applied, live));
  return status;
}

}  // namespace xorbit
