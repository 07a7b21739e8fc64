#include "cli/bench_workload.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cmath>

#include "base/parallel.h"

namespace xorbit {
namespace {

constexpr uint64_t kTensorCount = 16;

// A stream of pseudo-random numbers, seekable by construction: number i of stream s.
uint64_t RandomAt(uint64_t seed, uint64_t index) { return SplitMix64(SplitMix64(seed) ^ index); }

uint64_t XorValue(ValueKind kind, uint32_t unit_bits, uint64_t old_bits, uint64_t random) {
  const uint64_t mask = unit_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << unit_bits) - 1;
  switch (kind) {
    case ValueKind::kBit:
      return uint64_t{1} << (random % unit_bits);
    case ValueKind::kFp4: {
      // One nibble moves up or down by one code, mostly: XORs 1, 3, 7 of its three magnitude bits.
      static constexpr std::array<uint8_t, 16> kNibbleXors = {1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 7, 1};
      return uint64_t{kNibbleXors[random & 15]} << (random >> 4 & 1 ? 4 : 0);
    }
    case ValueKind::kRandom: {
      const uint64_t value = random & mask;
      return value == 0 ? 1 : value;
    }
    case ValueKind::kUlp: {
      const uint64_t distance = (random & 7) == 0 ? 2 : 1;
      const uint64_t moved = (random >> 3 & 1) != 0 ? old_bits + distance : old_bits - distance;
      return (moved ^ old_bits) & mask;
    }
  }
  return 1;
}

// BF16 weights of a trained model: normal, deviation 0.02; other dtypes: uniform bytes.
uint64_t OldValue(Dtype dtype, uint64_t random) {
  if (dtype != Dtype::kBF16) return random;
  const auto sum =
      static_cast<int64_t>((random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48)) - 131070;
  return std::bit_cast<uint32_t>(static_cast<float>(sum) * 0.02F * static_cast<float>(1.7320508 / 65536.0)) >> 16;
}

template <typename Bytes>
std::vector<Bytes> CutIntoTensors(const Layout& layout, Bytes state) {
  std::vector<Bytes> tensors;
  for (const TensorSpec& tensor : layout.tensors()) {
    tensors.push_back(state.first(tensor.byte_count));
    state = state.subspan(tensor.byte_count);
  }
  return tensors;
}

}  // namespace

Result<WorkloadSpec> FindWorkload(const std::string& name) {
  WorkloadSpec spec;
  spec.name = name;
  if (name == "reference-bit") spec.values = ValueKind::kBit;
  if (name == "reference-fp4") spec.values = ValueKind::kFp4;
  if (name == "reference-bit" || name == "reference-fp4" || name == "reference-random") return spec;
  if (name.starts_with("bf16-")) {
    double percent = 0;
    const char* end = name.data() + name.size();
    const auto [parsed_to, error] = std::from_chars(name.data() + 5, end, percent);
    if (error == std::errc() && parsed_to == end && percent >= 0 && percent <= 100) {
      spec.dtype = Dtype::kBF16;
      spec.density = percent / 100;
      spec.values = ValueKind::kUlp;
      return spec;
    }
  }
  return UsageError("there is no workload '" + name +
                    "'; choose reference-bit, reference-fp4, reference-random or bf16-PERCENT");
}

std::vector<ConstBytes> Workload::TensorsOf(const Buffer& state) const { return CutIntoTensors(layout, ConstBytes(state)); }
std::vector<MutableBytes> Workload::TensorsOf(Buffer& state) const { return CutIntoTensors(layout, MutableBytes(state)); }

Result<Workload> MakeWorkload(const WorkloadSpec& spec, int threads) {
  const uint32_t unit_bytes = UnitBytesOf(spec.dtype);
  const uint64_t tensor_elements = std::max<uint64_t>(spec.total_bytes / unit_bytes / kTensorCount, 1);
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < kTensorCount; ++i) {
    tensors.push_back({"layers." + std::to_string(10 + i) + ".weight", spec.dtype, {tensor_elements}});
  }
  Workload workload;
  workload.spec = spec;
  XORBIT_ASSIGN_OR_RETURN(workload.layout, Layout::Make(std::move(tensors)));
  workload.old_state.resize(workload.layout.total_bytes());
  workload.new_state.resize(workload.layout.total_bytes());
  const uint64_t element_count = workload.layout.total_bytes() / unit_bytes;
  const auto threshold = static_cast<uint64_t>(std::ldexp(std::min(spec.density, 0.5), 63)) * 2 +
                         static_cast<uint64_t>(std::ldexp(std::max(spec.density - 0.5, 0.0), 63)) * 2;
  constexpr uint64_t kStretch = uint64_t{1} << 20;
  std::atomic<uint64_t> change_count{0};
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, element_count / kStretch + 1, [&](uint64_t stretch) -> Status {
    uint64_t changes = 0;
    const uint64_t end = std::min(element_count, (stretch + 1) * kStretch);
    for (uint64_t i = stretch * kStretch; i < end; ++i) {
      const uint64_t old_bits = OldValue(spec.dtype, RandomAt(spec.seed, i));
      const bool changed = spec.density >= 1 || RandomAt(spec.seed + 1, i) < threshold;
      const uint64_t xor_bits = changed ? XorValue(spec.values, unit_bytes * 8, old_bits, RandomAt(spec.seed + 2, i)) : 0;
      const uint64_t new_bits = old_bits ^ xor_bits;
      std::memcpy(workload.old_state.data() + i * unit_bytes, &old_bits, unit_bytes);
      std::memcpy(workload.new_state.data() + i * unit_bytes, &new_bits, unit_bytes);
      changes += changed ? 1 : 0;
    }
    change_count += changes;
    return {};
  }));
  workload.change_count = change_count;
  return workload;
}

}  // namespace xorbit
