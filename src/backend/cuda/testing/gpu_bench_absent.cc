// The same contract in builds without nvcc: one error that says so, so that callers need no switch.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/testing/dense_rivals.h"
#include "backend/cuda/testing/gpu_bench.h"
#include "backend/cuda/testing/host_formula_memory.h"
#include "backend/cuda/testing/part_sender.h"

namespace xorbit {

Result<GpuBenchReport> RunGpuBench(const GpuBenchOptions& /*options*/) { return MakeCudaBackend().status(); }

Result<std::unique_ptr<FormulaMemory>> MakeFormulaMemory(int device, uint64_t byte_count, const ChangeFormula& formula,
                                                         const std::vector<FormulaPiece>& pieces) {
  if (device < 0) return MakeHostFormulaMemory(byte_count, formula, pieces);
  return MakeCudaBackend().status();
}

Result<int> CountDevices() { return MakeCudaBackend().status(); }

Result<std::unique_ptr<PartSender>> MakePartSender(int /*device*/, const Layout& /*layout*/, const SegmentMap& /*map*/,
                                                   ConstBytes /*old_state*/, ConstBytes /*new_state*/,
                                                   uint64_t /*change_count*/, CodecId /*codec*/) {
  return MakeCudaBackend().status();
}

Result<std::vector<DenseRow>> MeasureDense(int /*device_count*/, uint64_t /*byte_count*/, int /*rounds*/,
                                           const std::string& /*nccl_folder*/) {
  return MakeCudaBackend().status();
}

}  // namespace xorbit
