#include "backend/cuda/cuda_sender.h"

#include <cassert>
#include <string>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda {
namespace {

Status CopyIn(void* to_dev, const void* from_host, uint64_t byte_count, const char* what, cudaStream_t stream) {
  return CudaStatus(cudaMemcpyAsync(to_dev, from_host, byte_count, cudaMemcpyHostToDevice, stream),
                    std::string("cudaMemcpyAsync of ") + what + " to the device");
}
Status CopyBack(void* to_host, const void* from_dev, uint64_t byte_count, const char* what, cudaStream_t stream) {
  return CudaStatus(cudaMemcpyAsync(to_host, from_dev, byte_count, cudaMemcpyDeviceToHost, stream),
                    std::string("cudaMemcpyAsync of ") + what + " from the device");
}
Status Wait(cudaStream_t stream) {
  return CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize (a kernel or copy before it may have failed)");
}

}  // namespace

// The sender's stages as launches on its stream. Where a stage's numbers are read, the host waits.
class CudaSender::Stages final : public SendStages {
 public:
  explicit Stages(CudaSender* sender) : sender_(sender) { memory().device.tiles = nullptr; }

  Status FindChanges() override {
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(memory().cleared, 0, memory().cleared_bytes, stream()), "cudaMemsetAsync"));
    XORBIT_RETURN_IF_ERROR(Mark("clear", {}));
    XORBIT_RETURN_IF_ERROR(Mark("diff", Diff()));
    XORBIT_RETURN_IF_ERROR(Mark("scan groups", LaunchGroupScan(device(), stream())));
    XORBIT_RETURN_IF_ERROR(LaunchWindowCheck(device(), stream()));
    return Mark("gather and survey", LaunchGather(device(), stream()));
  }
  Status SurveyAgain() override {
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(device().histograms, 0, sizeof(SendHistograms), stream()), "cudaMemsetAsync"));
    XORBIT_RETURN_IF_ERROR(ClearCountersFrom(offsetof(SendCounters, has_long_tile)));
    return Mark("survey again", LaunchSurvey(device(), stream()));
  }
  Status ReadCounts(SendCounters* counters, SendHistograms* histograms) override {
    auto* const pinned_counters = reinterpret_cast<SendCounters*>(sender_->pinned_.data());
    auto* const pinned_histograms = reinterpret_cast<SendHistograms*>(pinned_counters + 1);
    XORBIT_RETURN_IF_ERROR(CopyBack(pinned_counters, device().counters, sizeof(SendCounters), "counters", stream()));
    XORBIT_RETURN_IF_ERROR(CopyBack(pinned_histograms, device().histograms, sizeof(SendHistograms), "histograms", stream()));
    XORBIT_RETURN_IF_ERROR(Wait(stream()));
    *counters = *pinned_counters;
    *histograms = *pinned_histograms;
    tile_count_ =
        device().tiles != nullptr ? device().tile_count : DivideRoundUp(counters->change_count, uint64_t{kMaxTileChanges});
    return {};
  }
  Status ReadWindowCounts(std::vector<uint32_t>* window_counts) override {
    window_counts->resize(sender_->plan_->window_count());
    XORBIT_RETURN_IF_ERROR(CopyBack(window_counts->data(), device().window_counts, window_counts->size() * sizeof(uint32_t),
                                    "window counts", stream()));
    return Wait(stream());
  }
  Status SetTiles(std::span<const SendTile> tiles) override {
    XORBIT_RETURN_IF_ERROR(CopyIn(memory().tiles, tiles.data(), tiles.size_bytes(), "tiles", stream()));
    memory().device.tiles = memory().tiles;
    memory().device.tile_count = tiles.size();
    return Wait(stream());  // the caller may free them
  }
  Status Encode(const SendTablesPlan& tables) override {
    memory().device.tables = tables.set;
    memory().device.tables.tables = memory().tables;
    XORBIT_RETURN_IF_ERROR(
        CopyIn(memory().tables, tables.tables.data(), tables.tables.size() * sizeof(SendTable), "tables", stream()));
    XORBIT_RETURN_IF_ERROR(ClearCountersFrom(offsetof(SendCounters, body_bytes)));
    XORBIT_RETURN_IF_ERROR(Mark("make tables", {}));
    XORBIT_RETURN_IF_ERROR(Mark("encode", LaunchEncode(device(), stream())));
    XORBIT_RETURN_IF_ERROR(Mark("scan tiles", LaunchTileScan(device(), stream())));
    return Mark("pack", LaunchPack(device(), stream()));
  }
  Status ReadTotals(SendCounters* counters) override {
    XORBIT_RETURN_IF_ERROR(CopyBack(sender_->pinned_.data(), device().counters, sizeof(SendCounters), "totals", stream()));
    XORBIT_RETURN_IF_ERROR(Wait(stream()));
    *counters = *reinterpret_cast<const SendCounters*>(sender_->pinned_.data());
    return {};
  }
  Status ReadSurveys(std::vector<TileSurvey>* surveys) override {
    surveys->resize(tile_count_);
    XORBIT_RETURN_IF_ERROR(
        CopyBack(surveys->data(), device().surveys, tile_count_ * sizeof(TileSurvey), "surveys of tiles", stream()));
    return Wait(stream());
  }

 private:
  SendMemory& memory() { return sender_->memory_; }
  const SendOnDevice& device() const { return sender_->memory_.device; }
  cudaStream_t stream() const { return sender_->stream_; }
  Status Diff() {
    const SenderOptions& options = sender_->options_;
    if (!sender_->feed_) {
      return LaunchDiff(device(), {0, device().strip_count}, options.with_base, stream());
    }
    WindowFeed& feed = *sender_->feed_;
    for (uint64_t i = 0; i < feed.plan().steps.size(); ++i) {
      const WindowStep& step = feed.plan().steps[i];
      XORBIT_RETURN_IF_ERROR(feed.Begin(i, stream()));
      XORBIT_RETURN_IF_ERROR(LaunchDiff(device(), {step.first_strip, step.end_strip}, options.with_base, stream()));
      XORBIT_RETURN_IF_ERROR(feed.End(i, stream()));
    }
    return {};
  }
  // Of SendCounters, this byte and what follows.
  Status ClearCountersFrom(uint64_t at) const {
    return CudaStatus(
        cudaMemsetAsync(reinterpret_cast<uint8_t*>(device().counters) + at, 0, sizeof(SendCounters) - at, stream()),
        "cudaMemsetAsync");
  }
  Status Mark(std::string_view stage, Status launched) const {
    if (launched.ok() && sender_->mark_) sender_->mark_(stage);
    return launched;
  }

  CudaSender* sender_;
  uint64_t tile_count_ = 0;
};

uint64_t CudaSender::DeviceBytesFor(const SendPlan& plan, const SenderOptions& options) {
  return PlaceSend(plan, options.sizes, nullptr).used_bytes;
}

Result<CudaSender> CudaSender::Make(const SendPlan& plan, const SenderOptions& options, uint8_t* memory_dev,
                                    MutableBytes pinned, cudaStream_t stream) {
  assert(pinned.size() >= kPinnedBytes);
  CudaSender sender;
  sender.plan_ = &plan;
  sender.options_ = options;
  sender.memory_ = PlaceSend(plan, options.sizes, memory_dev);
  sender.pinned_ = pinned;
  sender.stream_ = stream;
  const SendMemory& memory = sender.memory_;
  const uint64_t strip_bytes = plan.strips.size() * sizeof(Strip);
  if (options.sizes.slot_bytes == 0) {
    XORBIT_RETURN_IF_ERROR(CopyIn(memory.strips, plan.strips.data(), strip_bytes, "strips", stream));
  } else {
    WindowPlan window = PlanWindow(plan, options.sizes.slot_bytes);
    const std::vector<Strip> strips = StripsInWindow(plan, window, reinterpret_cast<uint64_t>(memory.slots));
    XORBIT_RETURN_IF_ERROR(CopyIn(memory.strips, strips.data(), strip_bytes, "strips", stream));
    XORBIT_RETURN_IF_ERROR(CopyIn(memory.home_strips, plan.strips.data(), strip_bytes, "strips", stream));
    XORBIT_ASSIGN_OR_RETURN(WindowFeed feed, WindowFeed::Make(std::move(window), memory.slots));
    sender.feed_.emplace(std::move(feed));
    XORBIT_RETURN_IF_ERROR(Wait(stream));  // until `strips` is copied
  }
  XORBIT_RETURN_IF_ERROR(CopyIn(memory.spans, plan.spans.data(), plan.spans.size() * sizeof(TensorSpan), "spans", stream));
  return sender;
}

Result<SentSegment> CudaSender::Encode() {
  Stages stages(this);
  return EncodeSegment(*plan_, memory_.room, &stages);
}

Result<SendCounters> CudaSender::FindChanges() {
  Stages stages(this);
  XORBIT_RETURN_IF_ERROR(stages.FindChanges());
  SendCounters counters{};
  XORBIT_RETURN_IF_ERROR(stages.ReadTotals(&counters));
  XORBIT_RETURN_IF_ERROR(CheckRoom(counters, memory_.room));
  return counters;
}

Status CudaSender::CopyOut(const SentSegment& sent, uint8_t* records_host, uint8_t* body_host) const {
  XORBIT_RETURN_IF_ERROR(
      CopyBack(records_host, memory_.device.records, sent.record_count * sizeof(TileRecord), "tile records", stream_));
  return CopyBack(body_host, memory_.device.body, sent.body_bytes, "the body", stream_);
}

Status CudaSender::BringForward() const {
  SendOnDevice device = memory_.device;
  if (memory_.home_strips != nullptr) device.strips = memory_.home_strips;
  return LaunchBringForward(device, stream_);
}

}  // namespace xorbit::cuda
