#include "codec/change_digest.h"

#include <algorithm>
#include <array>

#include "base/ascending.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// kKeepBlock: mixing a block's index once for all its changes, which pays where changes share blocks. Elsewhere the branch that
// finds out is dearer than mixing anew.
template <typename Unit, bool kKeepBlock>
void WeighUnits(const ChangeStretch& stretch, ChangeDigest* sum) {
  ChangeDigest local;
  uint64_t block = 0;
  BlockFactors factors = BlockFactorsOf(stretch.tensor_key, block);
  for (uint64_t i = 0; i < stretch.count; ++i) {
    const uint64_t at = stretch.origin + uint64_t{stretch.offsets[i]} * sizeof(Unit);
    if (!kKeepBlock || at / kDigestBlockBytes != block) {
      block = at / kDigestBlockBytes;
      factors = BlockFactorsOf(stretch.tensor_key, block);
    }
    const uint64_t old_bits = LoadLe<Unit>(stretch.olds + i * sizeof(Unit));
    const uint64_t xor_bits = LoadLe<Unit>(stretch.xors + i * sizeof(Unit));
    AddElement<Unit>(factors, at, old_bits, old_bits ^ xor_bits, &local);
  }
  *sum += local;
}

}  // namespace

std::vector<uint64_t> TensorKeysOf(const Layout& layout) {
  std::vector<uint64_t> keys;
  keys.reserve(layout.tensors().size());
  for (const TensorSpec& tensor : layout.tensors()) keys.push_back(TensorKeyOf(tensor.name));
  return keys;
}

void WeighStretchPortable(uint32_t unit_bytes, const ChangeStretch& stretch, ChangeDigest* sum) {
  if (stretch.count == 0) return;
  WithUnit(unit_bytes, [&]<typename Unit>() {
    const uint64_t extent = uint64_t{stretch.offsets[stretch.count - 1] - stretch.offsets[0]} * sizeof(Unit);
    if (stretch.count >= 2 * (extent / kDigestBlockBytes + 1)) {
      WeighUnits<Unit, true>(stretch, sum);
    } else {
      WeighUnits<Unit, false>(stretch, sum);
    }
  });
}

void ElementWeigher::Add(uint64_t first, std::span<const uint32_t> offsets, const uint8_t* olds, const uint8_t* xors,
                         ChangeDigest* sum) {
  const auto count = static_cast<uint32_t>(offsets.size());
  for (uint32_t begin = 0; begin < count;) {
    const uint64_t element = first + offsets[begin];
    const Run& run = runs_.Find(element);
    const uint32_t end = EndOfRun(offsets.data(), begin, count, run.element_count - (element - run.segment_element));
    const uint64_t origin = (run.tensor_element - run.segment_element + first) * unit_bytes_;
    const uint64_t value_at = uint64_t{begin} * unit_bytes_;
    weigh_(unit_bytes_,
           {tensor_keys_[run.tensor_index], origin, end - begin, offsets.data() + begin, olds + value_at, xors + value_at},
           sum);
    begin = end;
  }
}

void ElementWeigher::Add(uint64_t first, std::span<const uint16_t> positions, const uint8_t* olds, const uint8_t* xors,
                         ChangeDigest* sum) {
  std::array<uint32_t, 1024> offsets;
  for (size_t begin = 0; begin < positions.size(); begin += offsets.size()) {
    const auto piece = positions.subspan(begin, std::min(offsets.size(), positions.size() - begin));
    std::copy(piece.begin(), piece.end(), offsets.begin());
    const size_t value_at = begin * unit_bytes_;
    Add(first, std::span(offsets).first(piece.size()), olds + value_at, xors + value_at, sum);
  }
}

}  // namespace xorbit
