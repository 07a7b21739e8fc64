// Synthetic updates in memory, of chosen size, density and kind: the reference workload and its relatives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace xorbit {

// What a change does to an element.
enum class ValueKind {
  kBit,     // flips one bit, any of the element's
  kFp4,     // byte units: a packed pair of FP4 values, one of which moves to a neighbour (1.8 bits of value entropy)
  kRandom,  // any other value
  kUlp,     // 16-bit units: one or two units in the last place, as rounding flips do
};

struct WorkloadSpec {
  std::string name;
  Dtype dtype = Dtype::kU8;
  double density = 0.00085;  // of elements, each independently
  ValueKind values = ValueKind::kRandom;
  uint64_t total_bytes = 1'000'000'000;
  uint64_t seed = 1;
};

// Named specs: "reference-bit", "reference-fp4", "reference-random" (0.085 % of bytes), "bf16-1" (1 % of BF16 elements), and
// any "bf16-PERCENT". kUsage for other names.
Result<WorkloadSpec> FindWorkload(const std::string& name);

// Two states of one layout: a handful of equal tensors.
struct Workload {
  WorkloadSpec spec;
  Layout layout;
  Buffer old_state;  // all tensors end to end, in layout order
  Buffer new_state;
  uint64_t change_count = 0;

  std::vector<ConstBytes> TensorsOf(const Buffer& state) const;
  std::vector<MutableBytes> TensorsOf(Buffer& state) const;
};

// Deterministic in the spec, whatever the threads.
Result<Workload> MakeWorkload(const WorkloadSpec& spec, int threads);

}  // namespace xorbit
