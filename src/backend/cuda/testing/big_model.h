// A model as large as a GPU, by formula: its layout, where its tensors lie in live memory, and the payload of its update, made
// by the CPU's encoder.
#pragma once

#include "backend/cuda/staged_update.h"
#include "backend/cuda/testing/bench_kernels.h"
#include "backend/cuda/testing/timing.h"
#include "payload/payload_reader.h"

namespace xorbit::cuda::testing {

struct BigModel {
  std::string name;
  Layout layout;
  ChangeFormula formula;
  uint64_t byte_count = 0;
  std::vector<uint64_t> first_bytes;  // of each tensor, in the formula
  std::vector<uint64_t> places;       // of each tensor, in live memory
  LiveMap map;                        // the same, as pieces of one region
  Buffer payload_bytes;
  std::vector<PayloadView> payloads;  // one
  double entropy_bytes = 0;           // of positions and values, were they independent
};

// The share of one of four GPUs in the reference's workload, scaled to about `byte_count`: 60,000 experts' packed 4-bit
// weights, as many block scales and FP32 globals, BF16 dense layers; 0.085 % of the bytes change, one byte at a time.
Result<BigModel> MakeShare(uint64_t byte_count, bool random_bytes, CodecId codec = CodecId::kSparse);

// A model whose update is still to be put into a payload, by who publishes it.
struct UnsentModel {
  BigModel model;  // without a payload
  std::vector<SegmentMap> maps;
  std::vector<EncodedSegment> segments;
};
// MakeShare's, whose old bytes are all zero.
Result<UnsentModel> MakeUnsentShare(uint64_t byte_count);

// Matrices of 64 MiB, BF16 or of one byte an element, of whose elements a share changes in the low byte by one bit.
Result<BigModel> MakeMatrices(Dtype dtype, uint64_t byte_count, double share_of_elements);

}  // namespace xorbit::cuda::testing
