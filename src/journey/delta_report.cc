#include "journey/delta_report.h"

#include <mutex>

#include "backend/decoded_chain.h"
#include "base/parallel.h"

namespace xorbit {
namespace {

// Adds one segment's changes; bytes are shared out evenly over the segment's changes.
Status AddSegment(const PayloadSegment& segment, const SegmentDecoder& decoder, int threads,
                  std::vector<TensorReport>* tensors) {
  const uint64_t changes = segment.view.change_count;
  const double bytes_per_change =
      changes == 0 ? 0 : static_cast<double>(segment.view.body.size()) / static_cast<double>(changes);
  std::mutex mutex;  // guards *tensors
  return ParallelFor(threads, decoder.record_count(), [&](uint64_t index) -> Status {
    DecodedRecord record;
    XORBIT_RETURN_IF_ERROR(decoder.Decode(index, &record));
    const uint64_t first = decoder.info(index).first;
    std::vector<std::pair<uint32_t, uint64_t>> counts;  // tensor, changes
    RunFinder runs(segment.map);
    for (uint64_t i = 0; i < record.count; ++i) {
      const uint32_t tensor_index = runs.Find(first + record.offsets[i]).tensor_index;
      if (counts.empty() || counts.back().first != tensor_index) counts.emplace_back(tensor_index, 0);
      ++counts.back().second;
    }
    const std::lock_guard lock(mutex);
    for (const auto& [tensor_index, count] : counts) {
      (*tensors)[tensor_index].change_count += count;
      (*tensors)[tensor_index].body_bytes += static_cast<double>(count) * bytes_per_change;
    }
    return {};
  });
}

}  // namespace

Result<std::vector<TensorReport>> ReportTensors(const Runtime& runtime, const Delta& delta) {
  std::vector<TensorReport> tensors;
  for (uint32_t i = 0; i < delta.layout.tensors().size(); ++i)
    tensors.push_back({i, delta.layout.tensors()[i].unit_count(), 0, 0});
  for (size_t owner = 0; owner < delta.payloads.size(); ++owner) {
    for (const PayloadSegment& segment : delta.payloads[owner].segments) {
      XORBIT_ASSIGN_OR_RETURN(const auto decoder, OpenSegment(*runtime.backend, delta, owner, segment));
      XORBIT_RETURN_IF_ERROR(AddSegment(segment, *decoder, runtime.threads, &tensors));
    }
  }
  return tensors;
}

}  // namespace xorbit
