// All records of all payloads of a delta, decoded, planned against live memory and handed out over threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/live_kernels.h"
#include "tensor/live_memory.h"

namespace xorbit {

struct OpenedSegment {
  size_t payload_index = 0;
  const PayloadSegment* segment = nullptr;
  std::unique_ptr<SegmentDecoder> decoder;
  bool has_digests = false;
  bool present = false;       // this memory has the segment's presence group
  uint64_t first_record = 0;  // of the segment, counted over all segments
};

// A record on its way. Valid within the call that it is given to.
struct RecordTurn {
  const OpenedSegment* segment;
  uint64_t stretch_index;  // below RecordLoop::stretch_count(); records of a stretch come one after the other
  bool ends_stretch;       // the last of its stretch
  uint64_t record_index;   // in the segment
  RecordInfo info;
  PlannedRecord planned;  // of an absent group: with an empty plan
  LiveScratch* scratch;   // for the loops over `planned`
};

// One piece of a record that is contiguous in one tensor: change i of [begin, end) is element to_tensor + offsets[i].
using VisitTensorRun = std::function<void(uint32_t tensor_index, uint64_t to_tensor, uint32_t begin, uint32_t end)>;
void ForEachTensorRun(const RecordTurn& turn, const VisitTensorRun& visit);

// The payloads and what the memory points to must outlive it.
class RecordLoop {
 public:
  // kCorrupt or kUnsupported if a segment cannot be opened.
  static Result<RecordLoop> Open(const Backend& backend, const Layout& layout, std::span<const PayloadView> payloads,
                                 const LiveMemory& live);

  std::span<const OpenedSegment> segments() const { return segments_; }
  uint64_t record_count() const { return record_count_; }
  uint64_t stretch_count() const { return stretches_.size(); }
  const LiveMap& map() const { return *map_; }
  const std::vector<MutableBytes>& places() const { return places_; }

  // Calls body for every record, on several threads; decodes each before. The first error ends it; kCorrupt if a record does
  // not decode.
  using Body = std::function<Status(const RecordTurn& turn)>;
  Status ForEach(int threads, const Body& body) const;

 private:
  struct Stretch {
    size_t segment_index;
    uint64_t first;
    uint64_t last;  // one past
  };
  Status RunStretch(uint64_t stretch_index, const Body& body) const;

  const LiveMap* map_ = nullptr;
  std::vector<uint64_t> tensor_keys_;
  std::vector<MutableBytes> places_;
  std::vector<OpenedSegment> segments_;
  std::vector<Stretch> stretches_;
  uint64_t record_count_ = 0;
};

}  // namespace xorbit
