// The sender on a GPU: one segment's changes between two device buffers, coded into the bytes that the CPU backend would write.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/send_kernels.h"
#include "backend/cuda/send_memory.h"
#include "backend/cuda/send_segment.h"
#include "backend/cuda/window_feed.h"

namespace xorbit::cuda {

struct SenderOptions {
  SendSizes sizes;
  bool with_base = false;  // sum the digest of the old bytes in the diff; only if the plan's digest blocks are aligned
};

// Encodes one segment after another version of it. One thread; the stream and all memory are the caller's.
class CudaSender {
 public:
  // What Make's memory must hold at least.
  static uint64_t DeviceBytesFor(const SendPlan& plan, const SenderOptions& options);
  static constexpr uint64_t kPinnedBytes = sizeof(SendCounters) + sizeof(SendHistograms);

  // Old bytes may lie in page-locked host memory: with sizes.slot_bytes they come through a window on the device, ahead of the
  // diff; without, the diff reads them over the bus itself. Copies the plan to the device. `memory_dev` is 256-byte aligned and
  // belongs to the sender while it lives; so do kPinnedBytes of page-locked memory, 8-byte aligned. `plan` must outlive it.
  // Fails only if CUDA does.
  static Result<CudaSender> Make(const SendPlan& plan, const SenderOptions& options, uint8_t* memory_dev, MutableBytes pinned,
                                 cudaStream_t stream);

  // Finds and codes the changes; waits for the stream. The result stays on the device until the next call. kUsage if there are
  // more changes than there is room for.
  Result<SentSegment> Encode();
  // The first half of Encode, for who codes the changes in another way: leaves all of them in order on the device, and waits
  // for the stream. kUsage likewise.
  Result<SendCounters> FindChanges();
  const SendOnDevice& on_device() const { return memory_.device; }
  // Copies what Encode left: records and body, of the sizes that it told, to page-locked memory, in stream order.
  Status CopyOut(const SentSegment& sent, uint8_t* records_host, uint8_t* body_host) const;
  // Makes the old bytes, wherever the plan says they are, the new ones of the last Encode, in stream order. Only after the
  // version is decided; only once.
  Status BringForward() const;

  // Called with the name of each stage after its launch, to record an event.
  void set_mark(std::function<void(std::string_view)> mark) { mark_ = std::move(mark); }

 private:
  class Stages;

  const SendPlan* plan_ = nullptr;
  SenderOptions options_;
  SendMemory memory_;
  MutableBytes pinned_;
  cudaStream_t stream_ = nullptr;
  std::optional<WindowFeed> feed_;  // of old bytes in host memory
  std::function<void(std::string_view)> mark_;
};

}  // namespace xorbit::cuda
