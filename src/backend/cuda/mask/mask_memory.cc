#include "backend/cuda/mask/mask_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/paced_run.h"
#include "base/checked_math.h"
#include "codec/mask_format.h"

namespace xorbit::cuda {
namespace {

// Of inner frames at a time. Page-locking both buffers takes some 15 ms; a piece takes 16 threads two.
constexpr uint64_t kPieceBytes = uint64_t{24} << 20;
static_assert(kPieceBytes % kOuterChunkBytes == 0);

// One warp decodes a frame, and a batch ends with its last one: a slot should hold many. Of free memory slots take a quarter.
constexpr uint64_t kMostSlotBytes = uint64_t{4} << 30;
// Where the caller lends slots for the pause, pre-flight needs some of its own while the engine still uses them.
constexpr uint64_t kPreflightSlotBytes = uint64_t{64} << 20;

Result<uint64_t> FreeDeviceBytes() {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
  return uint64_t{free_bytes};
}

InnerStaging StagingOf(const PrepareOptions& options) { return {options.threads, options.masks.validates_inner_hashes}; }

}  // namespace

// Copies pieces to the device while the next one is made.
class MaskMemory::Pieces final : public InnerPieces {
 public:
  Pieces(MaskMemory* memory, const ServingThrottle& throttle) : memory_(*memory), throttle_(throttle) {}

  Status Open(uint64_t buffer_bytes) {
    XORBIT_ASSIGN_OR_RETURN(stream_, MakeStream());
    for (size_t i = 0; i < copied_.size(); ++i) {
      XORBIT_ASSIGN_OR_RETURN(copied_[i], MakeSleepingEvent());
      if (memory_.pieces_[i].bytes().size() >= buffer_bytes) continue;
      memory_.pieces_[i] = {};
      XORBIT_ASSIGN_OR_RETURN(memory_.pieces_[i], PinnedBuffer::Make(buffer_bytes));
    }
    return {};
  }
  Result<MutableBytes> Next() override {
    turn_ = (turn_ + 1) % copied_.size();
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(copied_[turn_].get()), "cudaEventSynchronize after a piece"));
    return memory_.pieces_[turn_].bytes();
  }
  Status Take(uint64_t offset, ConstBytes piece) override {
    XORBIT_RETURN_IF_ERROR(CopyPaced(memory_.inner_dev_.data_dev() + offset, piece.data(), piece.size(), "inner frames",
                                     throttle_, stream_.get()));
    return CudaStatus(cudaEventRecord(copied_[turn_].get(), stream_.get()), "cudaEventRecord");
  }
  // Also after a failure: until then the device may read the buffers.
  Status Close() const { return CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize after staging"); }

 private:
  MaskMemory& memory_;
  ServingThrottle throttle_;
  Stream stream_;
  std::array<Event, 2> copied_;
  size_t turn_ = 0;
};

std::unique_ptr<MaskMemory> MaskMemory::From(std::unique_ptr<KeptMemory>* kept, int device) {
  if (kept != nullptr) {
    const auto* found = dynamic_cast<MaskMemory*>(kept->get());
    if (found != nullptr && found->device_ == device)
      return std::unique_ptr<MaskMemory>(static_cast<MaskMemory*>(kept->release()));
  }
  return std::make_unique<MaskMemory>(device);
}

uint64_t MaskMemory::byte_count() const {
  uint64_t byte_count = inner_host_.bytes().size() + inner_dev_.byte_count() + slots_.byte_count();
  for (const PinnedBuffer& piece : pieces_) byte_count += piece.bytes().size();
  return byte_count;
}

// What is there already is room; what is too small for this update is given back first.
Result<bool> MaskMemory::HasRoomFor(uint64_t inner_bytes) {
  if (inner_dev_.byte_count() >= inner_bytes) return true;
  inner_dev_ = {};
  XORBIT_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeDeviceBytes());
  return inner_bytes <= free_bytes / 4;
}

Status MaskMemory::StageFrames(const PrepareOptions& options, const DecoderChoice& choice, MaskPlan* plan) {
  if (choice.reads_device_memory && !options.masks.keeps_inner_on_host) {
    XORBIT_ASSIGN_OR_RETURN(const bool has_room, HasRoomFor(InnerStagingBytes(*plan)));
    if (has_room) return StageOnDevice(options, plan);
  }
  inner_dev_ = {};
  return StageOnHost(options, choice, plan);
}

Status MaskMemory::StageOnDevice(const PrepareOptions& options, MaskPlan* plan) {
  inner_host_ = {};
  const uint64_t byte_count = InnerStagingBytes(*plan);
  if (inner_dev_.byte_count() < byte_count) {
    XORBIT_ASSIGN_OR_RETURN(inner_dev_, DeviceBuffer::Make(byte_count));
  }
  // A small update takes a small buffer.
  const uint64_t most = DivideRoundUp(byte_count, kOuterChunkBytes) * kOuterChunkBytes;
  const uint64_t piece_bytes = std::clamp(most, kOuterChunkBytes, kPieceBytes);
  Pieces pieces(this, options.throttle);
  XORBIT_RETURN_IF_ERROR(pieces.Open(PieceBufferBytes(*plan, piece_bytes)));
  const Status staged = StageInnerByPieces(*plan, StagingOf(options), piece_bytes, &pieces);
  const Status closed = pieces.Close();
  XORBIT_RETURN_IF_ERROR(staged);
  XORBIT_RETURN_IF_ERROR(closed);
  PlaceInner(inner_dev_.data_dev(), plan);
  return {};
}

Status MaskMemory::StageOnHost(const PrepareOptions& options, const DecoderChoice& choice, MaskPlan* plan) {
  const uint64_t byte_count = InnerStagingBytes(*plan);
  if (byte_count > options.masks.inner_budget_bytes) {
    return UnsupportedError("this update's frames need " + std::to_string(byte_count) + " bytes of host memory, of which " +
                            std::to_string(options.masks.inner_budget_bytes) +
                            " are allowed: allow more, or publish with the sparse codec");
  }
  if (inner_host_.bytes().size() < byte_count || inner_engine_ != choice.engine_driver) {
    inner_host_ = {};
    XORBIT_ASSIGN_OR_RETURN(inner_host_, HostInner::Make(byte_count, choice.engine_driver, device_));
    inner_engine_ = choice.engine_driver;
  }
  XORBIT_RETURN_IF_ERROR(StageInner(*plan, StagingOf(options), inner_host_.bytes().first(byte_count)));
  PlaceInner(inner_host_.bytes().data(), plan);
  return {};
}

Result<MutableBytes> MaskMemory::Slots(const MaskOptions& options, const MaskPlan& plan) {
  const uint64_t padded_bytes = plan.mask_bytes + plan.frames.size() * kMaskAlignment;
  const uint64_t needed = DivideRoundUp(std::max(padded_bytes / options.slot_count, kMaxFrameBytes), kMaskAlignment);
  uint64_t wanted = options.slot_bytes;
  if (!options.lent_dev.empty()) wanted = kPreflightSlotBytes;
  if (wanted == 0) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeDeviceBytes());
    wanted = std::min(kMostSlotBytes, (free_bytes + slots_.byte_count()) / 4 / options.slot_count);
  }
  uint64_t slot_bytes = std::min(std::max(wanted, kMaxFrameBytes), needed * kMaskAlignment + kMaxFrameBytes);
  for (;; slot_bytes /= 2) {
    const uint64_t byte_count = slot_bytes / kMaskAlignment * kMaskAlignment * options.slot_count;
    if (slots_.byte_count() < byte_count) {
      slots_ = {};
      Result<DeviceBuffer> slots = DeviceBuffer::Make(byte_count);
      if (!slots.ok()) {
        if (options.slot_bytes > 0 || slot_bytes / 2 < kMaxFrameBytes) return slots.status();
        static_cast<void>(cudaGetLastError());  // it is dealt with here
        continue;
      }
      slots_ = std::move(*slots);
    }
    return MutableBytes(slots_.data_dev(), byte_count);
  }
}

}  // namespace xorbit::cuda
