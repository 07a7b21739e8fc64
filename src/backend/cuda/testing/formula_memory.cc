#include "backend/cuda/testing/formula_memory.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/testing/bench_kernels.h"
#include "backend/cuda/testing/formula_pieces.h"
#include "backend/cuda/testing/host_formula_memory.h"
#include "backend/cuda/testing/live_model.h"

namespace xorbit {
namespace {

using cuda::CudaStatus;
using cuda::testing::Mismatches;

class DeviceFormulaMemory final : public FormulaMemory {
 public:
  DeviceFormulaMemory(int device, const ChangeFormula& formula) : device_(device), formula_(formula) {}

  Status Allocate(uint64_t byte_count, const std::vector<FormulaPiece>& pieces) {
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
    XORBIT_ASSIGN_OR_RETURN(stream_, cuda::MakeStream());
    XORBIT_ASSIGN_OR_RETURN(memory_, cuda::DeviceBuffer::Make(byte_count));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(memory_.data_dev(), 0, byte_count, stream_.get()), "cudaMemsetAsync"));
    XORBIT_ASSIGN_OR_RETURN(const std::vector<FormulaPiece> cut,
                            cuda::testing::CutPieces(reinterpret_cast<uint64_t>(memory_.data_dev()), byte_count, pieces));
    piece_count_ = cut.size();
    XORBIT_ASSIGN_OR_RETURN(pieces_, cuda::testing::UploadAll(cut));
    XORBIT_ASSIGN_OR_RETURN(mismatches_, cuda::DeviceBuffer::Make(sizeof(Mismatches)));
    return {};
  }

  MutableBytes bytes() const override { return {memory_.data_dev(), memory_.byte_count()}; }
  Status Fill(bool changed) override {
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device_));
    XORBIT_RETURN_IF_ERROR(cuda::testing::LaunchFill(pieces_dev(), piece_count_, formula_, changed, stream_.get()));
    return Wait();
  }
  Result<uint64_t> CountWrong(bool changed) override {
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device_));
    Mismatches found{0, ~uint64_t{0}};
    XORBIT_RETURN_IF_ERROR(
        cuda::testing::Upload(mismatches_.data_dev(), {reinterpret_cast<const uint8_t*>(&found), sizeof(found)}));
    auto* target = reinterpret_cast<Mismatches*>(mismatches_.data_dev());
    XORBIT_RETURN_IF_ERROR(cuda::testing::LaunchVerify(pieces_dev(), piece_count_, formula_, changed, target, stream_.get()));
    XORBIT_RETURN_IF_ERROR(Wait());
    XORBIT_RETURN_IF_ERROR(
        cuda::testing::Download({reinterpret_cast<uint8_t*>(&found), sizeof(found)}, mismatches_.data_dev()));
    return found.byte_count;
  }

 private:
  const FormulaPiece* pieces_dev() const { return reinterpret_cast<const FormulaPiece*>(pieces_.data_dev()); }
  Status Wait() const { return CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  int device_;
  ChangeFormula formula_;
  cuda::Stream stream_;
  cuda::DeviceBuffer memory_;
  cuda::DeviceBuffer pieces_;
  cuda::DeviceBuffer mismatches_;
  uint64_t piece_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<FormulaMemory>> MakeFormulaMemory(int device, uint64_t byte_count, const ChangeFormula& formula,
                                                         const std::vector<FormulaPiece>& pieces) {
  if (device < 0) return MakeHostFormulaMemory(byte_count, formula, pieces);
  auto memory = std::make_unique<DeviceFormulaMemory>(device, formula);
  XORBIT_RETURN_IF_ERROR(memory->Allocate(byte_count, pieces));
  return std::unique_ptr<FormulaMemory>(std::move(memory));
}

Result<int> CountDevices() {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  int count = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  return count;
}

}  // namespace xorbit
