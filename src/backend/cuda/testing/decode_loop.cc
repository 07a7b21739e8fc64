// Some steps are always queued, so that the host's speed does not show in their times.
#include "backend/cuda/testing/decode_loop.h"

#include <algorithm>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda::testing {
namespace {

constexpr uint64_t kKernels = 80;                     // of a step
constexpr uint64_t kInputBytes = uint64_t{64} << 10;  // tokens, positions and block tables, copied before each step
constexpr uint64_t kInFlight = 4;
constexpr uint64_t kWarmUps = 8;

Result<Stream> MakeEngineStream(bool has_high_priority) {
  int greatest = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(nullptr, &greatest), "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t stream = nullptr;
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, has_high_priority ? greatest : 0),
                 "cudaStreamCreateWithPriority"));
  return Stream(stream);
}

}  // namespace

Result<DecodeLoop> DecodeLoop::Make(const uint8_t* weights_dev, uint64_t byte_count, const DecodeOptions& options) {
  DecodeLoop loop;
  XORBIT_ASSIGN_OR_RETURN(loop.stream_, MakeEngineStream(options.has_high_priority));
  XORBIT_ASSIGN_OR_RETURN(loop.sink_, DeviceBuffer::Make(sizeof(uint64_t)));
  XORBIT_ASSIGN_OR_RETURN(loop.inputs_host_, PinnedBuffer::Make(kInputBytes));
  XORBIT_ASSIGN_OR_RETURN(loop.inputs_, DeviceBuffer::Make(kInputBytes));
  DecodeOptions step = options;
  step.step_bytes = std::min(options.step_bytes, byte_count);
  for (uint64_t at = 0; at + step.step_bytes <= byte_count; at += step.step_bytes) {
    XORBIT_RETURN_IF_ERROR(loop.Capture(weights_dev + at, step));
  }
  return loop;
}

Status DecodeLoop::Capture(const uint8_t* weights_dev, const DecodeOptions& options) {
  constexpr uint64_t kAlignment = 4096;
  const uint64_t each = options.step_bytes / kKernels / kAlignment * kAlignment;
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
  Status launched;
  for (uint64_t i = 0; i < kKernels && launched.ok(); ++i) {
    launched =
        LaunchDecode(options.shape, weights_dev + i * each, each, reinterpret_cast<uint64_t*>(sink_.data_dev()), stream_.get());
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &captured);
  const Graph graph(captured);
  XORBIT_RETURN_IF_ERROR(launched);
  XORBIT_RETURN_IF_ERROR(CudaStatus(ended, "cudaStreamEndCapture"));
  cudaGraphExec_t executable = nullptr;
  // Kernels keep the priority of the stream that they were captured from.
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate"));
  graphs_.emplace_back(executable);
  return {};
}

Status DecodeLoop::LaunchStep(uint64_t step) const {
  XORBIT_RETURN_IF_ERROR(CudaStatus(
      cudaMemcpyAsync(inputs_.data_dev(), inputs_host_.bytes().data(), kInputBytes, cudaMemcpyHostToDevice, stream_.get()),
      "cudaMemcpyAsync of a step's inputs"));
  return CudaStatus(cudaGraphLaunch(graphs_[step % graphs_.size()].get(), stream_.get()), "cudaGraphLaunch");
}

Result<std::vector<double>> DecodeLoop::Run(const std::function<bool(uint64_t step_count)>& enough) const {
  std::vector<Event> ends;
  for (uint64_t i = 0; i < kInFlight + 2; ++i) {
    XORBIT_ASSIGN_OR_RETURN(Event event, MakeSleepingEvent());
    ends.push_back(std::move(event));
  }
  const auto end_of = [&](uint64_t step) -> const Event& { return ends[step % ends.size()]; };
  std::vector<double> times_ms;
  for (uint64_t step = 0; !enough(times_ms.size()); ++step) {
    XORBIT_RETURN_IF_ERROR(LaunchStep(step));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end_of(step).get(), stream_.get()), "cudaEventRecord"));
    if (step <= kInFlight) continue;
    XORBIT_ASSIGN_OR_RETURN(const double milliseconds,
                            MillisecondsBetween(end_of(step - kInFlight - 1), end_of(step - kInFlight)));
    if (step > kInFlight + kWarmUps) times_ms.push_back(milliseconds);
  }
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize after decoding"));
  return times_ms;
}

}  // namespace xorbit::cuda::testing
