#include "backend/cuda/testing/live_model.h"

#include <algorithm>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda::testing {

Result<LiveModel> LiveModel::Make(const BigModel& model, Report* report) {
  LiveModel live;
  live.model_ = &model;
  live.report_ = report;
  XORBIT_ASSIGN_OR_RETURN(live.memory_, DeviceBuffer::Make(model.byte_count));
  XORBIT_ASSIGN_OR_RETURN(live.mismatches_, DeviceBuffer::Make(sizeof(Mismatches)));
  // Cut small, so that the blocks that fill and verify have equal work.
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  std::vector<FormulaPiece> pieces;
  const auto base = reinterpret_cast<uint64_t>(live.memory_.data_dev());
  for (size_t i = 0; i < model.places.size(); ++i) {
    const uint64_t byte_count = model.layout.tensors()[i].byte_count;
    const uint64_t begin = base + model.places[i];
    live.tensors_.push_back({begin, begin + byte_count});
    for (uint64_t at = 0; at < byte_count; at += kMostBytes) {
      pieces.push_back({begin + at, std::min(kMostBytes, byte_count - at), model.first_bytes[i] + at});
    }
  }
  live.piece_count_ = pieces.size();
  live.region_ = {base, base + model.byte_count};
  XORBIT_ASSIGN_OR_RETURN(live.pieces_, UploadAll(pieces));
  XORBIT_RETURN_IF_ERROR(LaunchFill(live.pieces_dev(), live.piece_count_, model.formula, false, report->stream()));
  return live;
}

void LiveModel::Verify(bool changed, const std::string& after) {
  Mismatches mismatches{0, ~uint64_t{0}};
  const auto run = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(Upload(mismatches_.data_dev(), BytesOf(mismatches)));
    auto* target = reinterpret_cast<Mismatches*>(mismatches_.data_dev());
    XORBIT_RETURN_IF_ERROR(LaunchVerify(pieces_dev(), piece_count_, model_->formula, changed, target, report_->stream()));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(report_->stream()), "cudaStreamSynchronize"));
    return Download({reinterpret_cast<uint8_t*>(&mismatches), sizeof(mismatches)}, mismatches_.data_dev());
  };
  report_->Check(run(), "verification");
  report_->Note(model_->name, "mismatched bytes after " + after, std::to_string(mismatches.byte_count));
  report_->Check(mismatches.byte_count == 0, model_->name + ": " + std::to_string(mismatches.byte_count) +
                                                 " bytes are wrong after " + after + ", the first is byte " +
                                                 std::to_string(mismatches.first_byte) + " of the formula");
}

}  // namespace xorbit::cuda::testing
