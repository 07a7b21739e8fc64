#include "backend/cuda/staged_update.h"

#include <algorithm>
#include <string>

#include "backend/cuda/arena.h"
#include "backend/cuda/binding_plan.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/paced_run.h"
#include "base/checked_math.h"

namespace xorbit::cuda {
namespace {

template <typename T>
Status CopyOut(const T* from_dev, uint64_t count, const char* what, cudaStream_t stream, std::vector<T>* to_host) {
  to_host->resize(count);
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(to_host->data(), from_dev, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
                 std::string("cudaMemcpyAsync of ") + what + " from the device"));
  return CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize (a kernel or copy before it may have failed)");
}

// Where everything goes. The same walk measures and places.
struct Places {
  SegmentOnDevice* segments = nullptr;
  RegionBounds* regions = nullptr;
  TileStart* starts = nullptr;
  TileSums* local_sums = nullptr;
  TileSums* counted_sums = nullptr;
  Digit* digits = nullptr;
  uint32_t* track_starts = nullptr;
  Piece* pieces = nullptr;
  PieceClass* classes = nullptr;
  ShadowOnDevice* shadows = nullptr;
  TieOnDevice* ties = nullptr;
  SegmentOnDevice* checked_segments = nullptr;
  SegmentOnDevice* cast_segments = nullptr;
  PayloadCounters* counters = nullptr;
  uint8_t* bitmaps = nullptr;
  std::vector<SegmentOnDevice> filled;  // copies of the plan's, with pointers
  std::vector<uint8_t*> bodies;         // where to copy each body to; null if it stays
  uint64_t used_bytes = 0;
};

uint64_t PayloadCountOf(const UpdatePlan& plan) {
  return plan.segments.empty() ? 0 : uint64_t{plan.segments.back().payload_index} + 1;
}

Places Place(const UpdatePlan& plan, const StageOptions& options, uint8_t* memory_dev) {
  Arena arena(memory_dev);
  Places places;
  places.segments = arena.Take<SegmentOnDevice>(plan.segments.size() + 1);
  places.regions = arena.Take<RegionBounds>(plan.live.regions.size());
  places.starts = arena.Take<TileStart>(plan.tile_count);
  places.local_sums = arena.Take<TileSums>(plan.tile_count);
  places.counted_sums = arena.Take<TileSums>(plan.tile_count);
  places.digits = arena.Take<Digit>(plan.digits.size());
  places.track_starts = arena.Take<uint32_t>(plan.live.track_starts.size());
  places.pieces = arena.Take<Piece>(plan.live.pieces.size());
  places.classes = arena.Take<PieceClass>(plan.live.classes.size());
  places.shadows = arena.Take<ShadowOnDevice>(plan.live.shadows.size());
  places.ties = arena.Take<TieOnDevice>(plan.ties.size());
  places.checked_segments = arena.Take<SegmentOnDevice>(plan.checked_tiles.size() + 1);
  places.cast_segments = arena.Take<SegmentOnDevice>(plan.cast_tiles.size() + 1);
  places.counters = arena.Take<PayloadCounters>(PayloadCountOf(plan));
  for (const SegmentPlan& segment : plan.segments) {
    SegmentOnDevice device = segment.device;
    const EncodedSegmentView& view = segment.segment->view;
    device.tables = arena.Take<SymbolTable>(segment.tables.size());
    device.parts = arena.Take<LivePart>(segment.parts.size());
    device.boxes = arena.Take<LiveBox>(segment.boxes.size());
    device.records = arena.Take<TileRecord>(view.record_count);
    uint8_t* body = options.body_on_device ? arena.Take<uint8_t>(view.body.size()) : nullptr;
    device.body = options.body_on_device ? body : view.body.data();
    device.old_values = options.keep_undo_log ? arena.Take<uint8_t>(view.change_count * device.unit_bytes) : nullptr;
    places.filled.push_back(device);
    places.bodies.push_back(body);
  }
  if (plan.bitmap_tile_count > 0) places.bitmaps = arena.Take<uint8_t>(plan.bitmap_bytes);
  SegmentOnDevice sentinel{};
  sentinel.first_tile = plan.tile_count;
  sentinel.first_item = plan.item_count;
  places.filled.push_back(sentinel);
  places.used_bytes = arena.used_bytes();
  return places;
}

// Copies to the device, one after the other, by the caller's stream.
class Copies {
 public:
  Copies(const ServingThrottle& throttle, cudaStream_t stream) : throttle_(throttle), stream_(stream) {}

  template <typename Values>
  Status Copy(const void* to_dev, const Values& from, const char* what) const {
    return CopyPaced(const_cast<void*>(to_dev), from.data(), from.size() * sizeof(from[0]), what, throttle_, stream_);
  }

 private:
  ServingThrottle throttle_;
  cudaStream_t stream_;
};

Status CopySegment(const SegmentPlan& segment, const SegmentOnDevice& device, uint8_t* body_dev, TileStart* starts_dev,
                   const Copies& copies) {
  const EncodedSegmentView& view = segment.segment->view;
  XORBIT_RETURN_IF_ERROR(copies.Copy(device.tables, segment.tables, "frequency tables"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(device.parts, segment.parts, "the parts"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(device.boxes, segment.boxes, "the boxes"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(device.records, view.records, "the tile index"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(starts_dev + device.first_tile, segment.starts, "tile starts"));
  if (body_dev == nullptr) return {};
  return copies.Copy(body_dev, view.body, "a payload's body");
}

Status CopyMap(const UpdatePlan& plan, const Places& places, const Copies& copies) {
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.regions, plan.live.regions, "the regions"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.digits, plan.digits, "the parts' digits"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.track_starts, plan.live.track_starts, "the live map's tracks"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.pieces, plan.live.pieces, "the live map's pieces"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.classes, plan.live.classes, "the live map's classes"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.shadows, plan.live.shadows, "the live map's shadows"));
  return copies.Copy(places.ties, plan.ties, "the live map's aliases");
}

// The update, of some other segments than all.
UpdateOnDevice OfSegments(UpdateOnDevice update, const SegmentOnDevice* segments_dev,
                          std::span<const SegmentOnDevice> with_sentinel) {
  update.segments = segments_dev;
  update.segment_count = with_sentinel.size() - 1;
  update.items = {0, with_sentinel.back().first_item, 0};
  return update;
}

}  // namespace

uint64_t StagedUpdate::BytesFor(const UpdatePlan& plan, const StageOptions& options) {
  return Place(plan, options, nullptr).used_bytes;
}

Result<StagedUpdate> StagedUpdate::Stage(const UpdatePlan& plan, const StageOptions& options, uint8_t* memory_dev,
                                         cudaStream_t stream) {
  Places places = Place(plan, options, memory_dev);
  const Copies copies(options.throttle, stream);
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(CopySegment(plan.segments[i], places.filled[i], places.bodies[i], places.starts, copies));
  }
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.segments, places.filled, "the segments"));
  XORBIT_RETURN_IF_ERROR(CopyMap(plan, places, copies));
  const std::vector<SegmentOnDevice> checked = CutToTiles(plan, places.filled, plan.checked_tiles);
  const std::vector<SegmentOnDevice> cast = CutToTiles(plan, places.filled, plan.cast_tiles);
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.checked_segments, checked, "segments with shadows or aliases"));
  XORBIT_RETURN_IF_ERROR(copies.Copy(places.cast_segments, cast, "segments with shadows"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize after staging"));
  StagedUpdate staged;
  staged.update_.segments = places.segments;
  staged.update_.segment_count = plan.segments.size();
  staged.update_.items = {0, plan.item_count, 0};
  staged.update_.table_bytes = plan.table_bytes;
  staged.update_.starts = places.starts;
  staged.update_.local_sums = places.local_sums;
  staged.update_.counted_sums = places.counted_sums;
  staged.update_.digits = places.digits;
  staged.update_.track_starts = places.track_starts;
  staged.update_.pieces = places.pieces;
  staged.update_.classes = places.classes;
  staged.update_.counters = places.counters;
  staged.update_.regions = places.regions;
  staged.update_.bitmaps = places.bitmaps;
  staged.update_.tile_count = plan.tile_count;
  staged.update_.bitmap_tile_count = plan.bitmap_tile_count;
  staged.update_.inverse = options.inverse ? 1 : 0;
  staged.update_.partial = options.partial ? 1 : 0;
  staged.checked_ = OfSegments(staged.update_, places.checked_segments, checked);
  staged.cast_ = OfSegments(staged.update_, places.cast_segments, cast);
  staged.bindings_ = {places.shadows, places.ties};
  staged.tie_count_ = plan.ties.size();
  staged.payload_count_ = PayloadCountOf(plan);
  staged.tile_count_ = plan.tile_count;
  staged.has_undo_log_ = options.keep_undo_log;
  XORBIT_RETURN_IF_ERROR(staged.ClearCounters(stream));
  return staged;
}

Status StagedUpdate::ClearCounters(cudaStream_t stream) const {
  // Sums to 0, reports to kNoReport: the reports stand first in each record.
  static_assert(offsetof(PayloadCounters, local_change_count) == 16);
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(update_.counters, 0, payload_count_ * sizeof(PayloadCounters), stream), "cudaMemsetAsync"));
  return CudaStatus(cudaMemset2DAsync(update_.counters, sizeof(PayloadCounters), 0xff, 16, payload_count_, stream),
                    "cudaMemset2DAsync of the reports");
}

Status StagedUpdate::CopyCounters(PayloadCounters* to_pinned, cudaStream_t stream) const {
  return CudaStatus(
      cudaMemcpyAsync(to_pinned, update_.counters, payload_count_ * sizeof(PayloadCounters), cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync of counters from the device");
}

Result<std::vector<PayloadCounters>> StagedUpdate::ReadCounters(cudaStream_t stream) const {
  std::vector<PayloadCounters> counters;
  XORBIT_RETURN_IF_ERROR(CopyOut(update_.counters, payload_count_, "counters", stream, &counters));
  return counters;
}

Result<std::vector<TieOnDevice>> StagedUpdate::ReadTies(cudaStream_t stream) const {
  std::vector<TieOnDevice> ties;
  XORBIT_RETURN_IF_ERROR(CopyOut(bindings_.ties, tie_count_, "sums of tied tensors", stream, &ties));
  return ties;
}

Result<std::vector<TileSums>> StagedUpdate::ReadCountedSums(cudaStream_t stream) const {
  std::vector<TileSums> sums;
  XORBIT_RETURN_IF_ERROR(CopyOut(update_.counted_sums, tile_count_, "tile sums", stream, &sums));
  return sums;
}

}  // namespace xorbit::cuda
