// A big model in live memory: filled and verified by formula.
#pragma once

#include "backend/cuda/testing/big_model.h"

namespace xorbit::cuda::testing {

template <typename T>
Result<DeviceBuffer> UploadAll(const std::vector<T>& values) {
  XORBIT_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Make(values.size() * sizeof(T)));
  XORBIT_RETURN_IF_ERROR(
      Upload(buffer.data_dev(), {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)}));
  return buffer;
}

class LiveModel {
 public:
  // The old version, as soon as the report's stream gets there. Model and report outlive it.
  static Result<LiveModel> Make(const BigModel& model, Report* report);

  uint8_t* data_dev() const { return memory_.data_dev(); }
  std::span<const RegionBounds> regions() const { return {&region_, 1}; }
  std::span<const RegionBounds> tensors() const { return tensors_; }
  // For Backend, beside the model's map.
  std::vector<MutableBytes> bytes() const { return {{memory_.data_dev(), memory_.byte_count()}}; }

  // Compares every byte with the formula.
  void Verify(bool changed, const std::string& after);

 private:
  static ConstBytes BytesOf(const Mismatches& m) { return {reinterpret_cast<const uint8_t*>(&m), sizeof(m)}; }
  const FormulaPiece* pieces_dev() const { return reinterpret_cast<const FormulaPiece*>(pieces_.data_dev()); }

  const BigModel* model_ = nullptr;
  Report* report_ = nullptr;
  DeviceBuffer memory_;
  DeviceBuffer pieces_;
  DeviceBuffer mismatches_;
  uint64_t piece_count_ = 0;
  RegionBounds region_{};
  std::vector<RegionBounds> tensors_;  // where each lies
};

}  // namespace xorbit::cuda::testing
