#include "backend/cuda/mask/cuda_mask_device.h"

#include <algorithm>
#include <string>

#include "backend/cuda/arena.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/nvtx_range.h"
#include "backend/cuda/paced_run.h"
#include "codec/mask_format.h"

namespace xorbit::cuda {
namespace {

struct MaskPlaces {
  MasksOnDevice masks{};
  FrameOnDevice* frames;
  uint32_t* frame_of_tile;
  uint32_t* decoded_bytes;
  uint64_t used_bytes;
};

MaskPlaces Place(const MaskPlan& plan, uint8_t* memory) {
  Arena arena(memory);
  MaskPlaces places{};
  places.frames = arena.Take<FrameOnDevice>(plan.frames.size());
  places.frame_of_tile = arena.Take<uint32_t>(plan.frame_of_tile.size());
  places.decoded_bytes = arena.Take<uint32_t>(plan.frames.size());
  places.masks.states = arena.Take<FrameState>(plan.frames.size());
  places.masks.applied_count = arena.Take<uint64_t>(1);
  places.masks.frames = places.frames;
  places.masks.frame_of_tile = places.frame_of_tile;
  places.masks.decoded_bytes = places.decoded_bytes;
  places.used_bytes = arena.used_bytes();
  return places;
}

BindingStep StepOf(MaskPass pass) { return pass == MaskPass::kPreflight ? BindingStep::kCheck : BindingStep::kFollowXor; }

}  // namespace

Result<std::unique_ptr<CudaMaskDevice>> CudaMaskDevice::Make(MaskPlan* plan, const StageOptions& options) {
  auto device = std::unique_ptr<CudaMaskDevice>(new CudaMaskDevice());
  device->plan_ = plan;
  device->throttle_ = options.throttle;
  XORBIT_ASSIGN_OR_RETURN(device->updates_, MakeStream());
  for (uint32_t i = 0; i < kMostSlots; ++i) {
    XORBIT_ASSIGN_OR_RETURN(device->decodes_[i], MakeStream());
    XORBIT_ASSIGN_OR_RETURN(device->decoded_[i], MakeSleepingEvent());
    XORBIT_ASSIGN_OR_RETURN(device->used_[i], MakeSleepingEvent());
  }
  XORBIT_ASSIGN_OR_RETURN(device->tables_, DeviceBuffer::Make(StagedUpdate::BytesFor(plan->update, options)));
  XORBIT_ASSIGN_OR_RETURN(device->staged_,
                          StagedUpdate::Stage(plan->update, options, device->tables_.data_dev(), device->updates_.get()));
  XORBIT_ASSIGN_OR_RETURN(device->memory_, DeviceBuffer::Make(Place(*plan, nullptr).used_bytes));
  const MaskPlaces places = Place(*plan, device->memory_.data_dev());
  device->masks_ = places.masks;
  XORBIT_RETURN_IF_ERROR(CopyPaced(places.frame_of_tile, plan->frame_of_tile.data(),
                                   plan->frame_of_tile.size() * sizeof(uint32_t), "the tiles' frames", options.throttle,
                                   device->updates_.get()));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(places.masks.states, 0, plan->frames.size() * sizeof(FrameState), device->updates_.get()),
                 "cudaMemsetAsync of the frames' states"));
  XORBIT_ASSIGN_OR_RETURN(device->findings_,
                          PinnedBuffer::Make(device->staged_.payload_count() * sizeof(PayloadCounters) + sizeof(uint64_t)));
  return device;
}

Status CudaMaskDevice::UseSlots(const MaskSlots& slots) {
  if (slots.count < 2 || slots.count > kMostSlots) {
    return UsageError("masks are decoded into 2 to " + std::to_string(kMostSlots) + " slots");
  }
  if (slots.slot_bytes() < kMaxFrameBytes) {
    return UsageError("a slot must hold " + std::to_string(kMaxFrameBytes) + " bytes of masks, and has room for " +
                      std::to_string(slots.slot_bytes()));
  }
  if (reinterpret_cast<uint64_t>(slots.memory.data()) % kSlotAlignment != 0) {
    return UsageError("memory for slots must begin on a multiple of " + std::to_string(kSlotAlignment) + " bytes");
  }
  slots_ = slots;
  batches_ = PlanBatches(slots.slot_bytes(), plan_);
  XORBIT_ASSIGN_OR_RETURN(groups_, DeviceBuffer::Make(slots.count * slots.slot_bytes() / kGroupWordBytes * sizeof(uint32_t)));
  XORBIT_RETURN_IF_ERROR(CopyPaced(const_cast<FrameOnDevice*>(masks_.frames), plan_->frames.data(),
                                   plan_->frames.size() * sizeof(FrameOnDevice), "the frames", throttle_, updates_.get()));
  return CudaStatus(cudaStreamSynchronize(updates_.get()), "cudaStreamSynchronize after staging");
}

Status CudaMaskDevice::LeaveServing() {
  XORBIT_RETURN_IF_ERROR(Drain());
  throttle_ = ServingThrottle::None();
  XORBIT_ASSIGN_OR_RETURN(updates_, MakeUrgentStream());
  return LoadMaskApply();
}

Status CudaMaskDevice::Begin() {
  if (spans_ != nullptr) XORBIT_RETURN_IF_ERROR(times_.Start(updates_.get()));
  XORBIT_RETURN_IF_ERROR(staged_.ClearCounters(updates_.get()));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(masks_.applied_count, 0, sizeof(uint64_t), updates_.get()), "cudaMemsetAsync"));
  // kNotDecoded, and, where a decoder says no more, no error.
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(const_cast<uint32_t*>(masks_.decoded_bytes), 0xff,
                                                    plan_->frames.size() * sizeof(uint32_t), updates_.get()),
                                    "cudaMemsetAsync of the frames' lengths"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemset2DAsync(&masks_.states->decoding_error, sizeof(FrameState), 0, sizeof(uint32_t),
                                                      plan_->frames.size(), updates_.get()),
                                    "cudaMemset2DAsync of the frames' errors"));
  for (uint32_t i = 0; i < slots_.count; ++i) {
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(used_[i].get(), updates_.get()), "cudaEventRecord"));
  }
  return {};
}

Status CudaMaskDevice::Decode(const MaskBatch& batch, uint32_t slot, FrameDecoder* decoder) {
  const NvtxRange profiled("queue decoding of a batch");
  const cudaStream_t stream = decodes_[slot].get();
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(stream, used_[slot].get(), 0), "cudaStreamWaitEvent"));
  XORBIT_RETURN_IF_ERROR(Open("decode into slot " + std::to_string(slot), batch, stream));
  if (decoder->marks_groups()) {
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(GroupsAt(slot), 0, batch.slot_bytes / kGroupWordBytes * sizeof(uint32_t), stream),
                   "cudaMemsetAsync of groups"));
  }
  const auto submit = [&](uint64_t begin, uint64_t end) {
    const std::span<const FrameOnDevice> frames = std::span(plan_->frames).subspan(begin, end - begin);
    return decoder->Submit({plan_->kind, frames, masks_.frames + begin, const_cast<uint32_t*>(masks_.decoded_bytes) + begin,
                            masks_.states + begin, SlotAt(slot), GroupsAt(slot), false, throttle_.blocks, stream});
  };
  const uint64_t count = batch.frame_end - batch.frame_begin;
  XORBIT_RETURN_IF_ERROR(RunPaced(count, throttle_, stream, [&](uint64_t begin, uint64_t end) {
    return submit(batch.frame_begin + begin, batch.frame_begin + end);
  }));
  XORBIT_RETURN_IF_ERROR(Close(stream));
  return CudaStatus(cudaEventRecord(decoded_[slot].get(), stream), "cudaEventRecord");
}

Status CudaMaskDevice::Bind(const MaskLaunch& launch, const MaskBatch& batch, MaskPass pass) const {
  const bool is_check = pass == MaskPass::kPreflight;
  for (const TileRange& range : is_check ? plan_->update.checked_tiles : plan_->update.cast_tiles) {
    const uint64_t first_tile = plan_->update.segments[range.segment_index].device.first_tile;
    const uint64_t begin = std::max(first_tile + range.begin, batch.tile_begin);
    const uint64_t end = std::min(first_tile + range.end, batch.tile_end);
    if (begin >= end) continue;
    XORBIT_RETURN_IF_ERROR(LaunchMaskBindings(launch, begin, end, staged_.bindings(), StepOf(pass)));
  }
  return {};
}

Status CudaMaskDevice::Update(const MaskBatch& batch, uint32_t slot, MaskPass pass, const FrameDecoder& decoder) {
  const NvtxRange profiled(pass == MaskPass::kPreflight ? "queue check of a batch" : "queue XOR of a batch");
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(updates_.get(), decoded_[slot].get(), 0), "cudaStreamWaitEvent"));
  XORBIT_RETURN_IF_ERROR(Open(pass == MaskPass::kPreflight ? "check" : "XOR", batch, updates_.get()));
  const MaskSlot masks{SlotAt(slot), decoder.marks_groups() ? GroupsAt(slot) : nullptr};
  const MaskLaunch launch{&staged_.update(), &masks_, masks, throttle_.blocks, updates_.get()};
  const uint64_t tile_count = batch.tile_end - batch.tile_begin;
  const auto paced = [&](auto&& run) {
    return RunPaced(tile_count, throttle_, updates_.get(),
                    [&](uint64_t begin, uint64_t end) { return run(batch.tile_begin + begin, batch.tile_begin + end); });
  };
  if (decoder.needs_proof()) {
    XORBIT_RETURN_IF_ERROR(paced([&](uint64_t begin, uint64_t end) { return LaunchMaskHash(launch, begin, end); }));
  }
  XORBIT_RETURN_IF_ERROR(LaunchOpenFrames(launch, batch, pass, decoder.needs_proof()));
  XORBIT_RETURN_IF_ERROR(paced([&](uint64_t begin, uint64_t end) { return LaunchMaskPass(launch, begin, end, pass); }));
  XORBIT_RETURN_IF_ERROR(Bind(launch, batch, pass));
  XORBIT_RETURN_IF_ERROR(Close(updates_.get()));
  return CudaStatus(cudaEventRecord(used_[slot].get(), updates_.get()), "cudaEventRecord");
}

Status CudaMaskDevice::Finish(MaskFindings* findings) {
  const MaskLaunch launch{&staged_.update(), &masks_, {}, 0, updates_.get()};
  XORBIT_RETURN_IF_ERROR(LaunchAudit(launch, plan_->frames.size()));
  auto* counters = reinterpret_cast<PayloadCounters*>(findings_.bytes().data());
  auto* applied_count = reinterpret_cast<uint64_t*>(counters + staged_.payload_count());
  XORBIT_RETURN_IF_ERROR(staged_.CopyCounters(counters, updates_.get()));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(applied_count, masks_.applied_count, sizeof(uint64_t), cudaMemcpyDeviceToHost, updates_.get()),
                 "cudaMemcpyAsync of the number of applied frames"));
  XORBIT_RETURN_IF_ERROR(Drain());
  findings->counters.assign(counters, counters + staged_.payload_count());
  findings->applied_frames = *applied_count;
  return spans_ == nullptr ? Status() : times_.AddTo(spans_);
}

Status CudaMaskDevice::Drain() {
  for (const Stream& stream : decodes_) {
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize (a kernel before it may have failed)"));
  }
  return CudaStatus(cudaStreamSynchronize(updates_.get()), "cudaStreamSynchronize (a kernel before it may have failed)");
}

}  // namespace xorbit::cuda
