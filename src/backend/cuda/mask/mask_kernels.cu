// Warps take the tiles of a batch in turn; frames one thread each.
#include "backend/cuda/mask/mask_kernels.h"

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/mask/mask_tile.h"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kWarps = 8;
constexpr uint32_t kThreads = kWarps * kWarpLanes;
// Registers for four blocks a multiprocessor, of which three run: the rest is for the warps that decode the next batch
// meanwhile.
constexpr uint32_t kRegisterBlocks = 4;
constexpr uint32_t kBlocksEach = 3;

struct TileLoop {
  UpdateOnDevice update;
  MasksOnDevice masks;
  MaskSlot slot;
  uint64_t begin;
  uint64_t end;
};

// body.Run<Unit>(task) for every tile, by all lanes of a warp.
template <typename Body>
__device__ __forceinline__ void ForEachMaskTile(const TileLoop& loop, const Body& body) {
  __shared__ uint64_t word_factors[kWordFactorCount];
  __shared__ MaskQueues queues[kWarps];
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  __syncthreads();
  const uint32_t warp = ShuffleFrom(threadIdx.x / kWarpLanes, 0);
  for (uint64_t tile = loop.begin + blockIdx.x * kWarps + warp; tile < loop.end; tile += gridDim.x * kWarps) {
    const MaskTask task = MakeMaskTask(loop.update, loop.masks, tile, loop.slot, &queues[warp], word_factors);
    switch (task.segment->unit_bytes) {
      case 1:
        body.template Run<uint8_t>(task);
        break;
      case 2:
        body.template Run<uint16_t>(task);
        break;
      case 4:
        body.template Run<uint32_t>(task);
        break;
      default:
        body.template Run<uint64_t>(task);
    }
    SyncWarp();
  }
}

template <MaskPass kPass>
struct PassBody {
  template <typename Unit>
  __device__ __forceinline__ void Run(const MaskTask& task) const {
    if constexpr (kPass == MaskPass::kPreflight) {
      PreflightMaskTile<Unit>(task);
    } else {
      XorMaskTile<Unit, kPass == MaskPass::kApply ? ApplyKind::kReturningXor : ApplyKind::kXor>(task);
    }
  }
};

struct BindingBody {
  BindingsOnDevice bindings;
  BindingStep step;
  template <typename Unit>
  __device__ __forceinline__ void Run(const MaskTask& task) const {
    BindMaskTile<Unit>(task, bindings, step);
  }
};

struct HashBody {
  const FrameOnDevice* frames;
  const uint32_t* frame_of_tile;
  template <typename Unit>
  __device__ __forceinline__ void Run(const MaskTask& task) const {
    const FrameOnDevice& frame = frames[frame_of_tile[task.tile_index]];
    HashMaskTile(task, (task.context.record.first - frame.first) * sizeof(Unit));
  }
};

template <typename Body>
__global__ void __launch_bounds__(kThreads, kRegisterBlocks) MaskTileKernel(const __grid_constant__ TileLoop loop, Body body) {
  ForEachMaskTile(loop, body);
}

__global__ void OpenFramesKernel(UpdateOnDevice update, MasksOnDevice masks, uint64_t begin, uint64_t end, MaskPass pass,
                                 bool needs_proof) {
  const uint64_t frame = begin + blockIdx.x * uint64_t{kThreads} + threadIdx.x;
  if (frame < end) OpenFrame(update, masks, frame, pass, needs_proof);
}

__global__ void AuditKernel(UpdateOnDevice update, MasksOnDevice masks, uint64_t frame_count) {
  const uint64_t frame = blockIdx.x * uint64_t{kThreads} + threadIdx.x;
  if (frame < frame_count) AuditFrame(update, masks, frame);
}

uint32_t BlocksOf(uint64_t thread_count) { return static_cast<uint32_t>((thread_count + kThreads - 1) / kThreads); }

template <typename Body>
Status LaunchOverTiles(const char* name, const MaskLaunch& launch, uint64_t begin, uint64_t end, const Body& body) {
  if (begin == end) return {};
  int device = 0;
  int multiprocessors = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                    "cudaDeviceGetAttribute of the multiprocessor count"));
  uint64_t blocks =
      std::min((end - begin + kWarps - 1) / kWarps, uint64_t{kBlocksEach} * static_cast<uint32_t>(multiprocessors));
  if (launch.most_blocks > 0) blocks = std::min<uint64_t>(blocks, launch.most_blocks);
  const TileLoop loop{*launch.update, *launch.masks, launch.slot, begin, end};
  MaskTileKernel<<<static_cast<uint32_t>(blocks), kThreads, 0, launch.stream>>>(loop, body);
  return CudaStatus(cudaGetLastError(), std::string("launch of ") + name);
}

}  // namespace

Status LaunchMaskHash(const MaskLaunch& launch, uint64_t begin, uint64_t end) {
  return LaunchOverTiles("the masks' hash", launch, begin, end, HashBody{launch.masks->frames, launch.masks->frame_of_tile});
}

Status LaunchOpenFrames(const MaskLaunch& launch, const MaskBatch& batch, MaskPass pass, bool needs_proof) {
  OpenFramesKernel<<<BlocksOf(batch.frame_end - batch.frame_begin), kThreads, 0, launch.stream>>>(
      *launch.update, *launch.masks, batch.frame_begin, batch.frame_end, pass, needs_proof);
  return CudaStatus(cudaGetLastError(), "launch of the frames' opening");
}

Status LaunchMaskPass(const MaskLaunch& launch, uint64_t begin, uint64_t end, MaskPass pass) {
  switch (pass) {
    case MaskPass::kPreflight:
      return LaunchOverTiles("pre-flight of masks", launch, begin, end, PassBody<MaskPass::kPreflight>{});
    case MaskPass::kApply:
      return LaunchOverTiles("XOR of masks", launch, begin, end, PassBody<MaskPass::kApply>{});
    default:
      return LaunchOverTiles("XOR of masks, back", launch, begin, end, PassBody<MaskPass::kUndo>{});
  }
}

Status LoadMaskApply() {
  return LoadKernel(reinterpret_cast<const void*>(MaskTileKernel<PassBody<MaskPass::kApply>>), "the XOR of masks");
}

Status LaunchMaskBindings(const MaskLaunch& launch, uint64_t begin, uint64_t end, const BindingsOnDevice& bindings,
                          BindingStep step) {
  return LaunchOverTiles("the bindings of masks", launch, begin, end, BindingBody{bindings, step});
}

Status LaunchAudit(const MaskLaunch& launch, uint64_t frame_count) {
  if (frame_count == 0) return {};
  AuditKernel<<<BlocksOf(frame_count), kThreads, 0, launch.stream>>>(*launch.update, *launch.masks, frame_count);
  return CudaStatus(cudaGetLastError(), "launch of the frames' audit");
}

}  // namespace xorbit::cuda
