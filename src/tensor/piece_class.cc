// The arithmetic of classes, and the form in which a live map keeps them.
#include "tensor/piece_class.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/checked_math.h"
#include "tensor/segment.h"

namespace xorbit {
namespace {

// The extent of digits whose strides are each at least the extent of those after it; nothing if they are not, or overflow.
std::optional<uint64_t> NestedExtent(std::span<const Digit> slowest_first) {
  uint64_t extent = 1;
  for (size_t i = slowest_first.size(); i-- > 0;) {
    const Digit& digit = slowest_first[i];
    if (digit.stride < extent) return std::nullopt;
    const auto reach = CheckedMul(digit.count - 1, digit.stride);
    const auto next = reach ? CheckedAdd(extent, *reach) : std::nullopt;
    if (!next) return std::nullopt;
    extent = *next;
  }
  return extent;
}

Status CheckNested(const PieceClass& shape) {
  std::array<Digit, kMaxLiveDigits> digits;
  const auto used = std::span(digits).first(shape.digit_count);
  for (uint32_t i = 0; i < shape.digit_count; ++i) digits[i] = {shape.digits[i].count, shape.digits[i].canonical_stride};
  if (!NestedExtent(used)) return CorruptError("has canonical strides that are not nested, slowest first");
  for (uint32_t i = 0; i < shape.digit_count; ++i) digits[i] = {shape.digits[i].count, shape.digits[i].live_stride};
  std::sort(used.begin(), used.end(),
            [](const Digit& a, const Digit& b) { return a.stride != b.stride ? a.stride > b.stride : a.count > b.count; });
  if (!NestedExtent(used)) return CorruptError("has live strides that are not nested, so that places may meet");
  return {};
}

// True if `slow` only counts on where `fast` ends, on both sides.
bool Continues(const LiveDigit& slow, const LiveDigit& fast) {
  return CheckedMul(fast.count, fast.canonical_stride) == std::optional(slow.canonical_stride) &&
         CheckedMul(fast.count, fast.live_stride) == std::optional(slow.live_stride);
}

}  // namespace

uint64_t PieceClass::granule_count() const {
  uint64_t count = 1;
  for (uint32_t i = 0; i < digit_count; ++i) count *= digits[i].count;
  return count;
}

uint64_t PieceClass::canonical_extent() const {
  uint64_t last = 0;
  for (uint32_t i = 0; i < digit_count; ++i) last += (digits[i].count - 1) * digits[i].canonical_stride;
  return last + 1;
}

uint64_t PieceClass::live_extent() const {
  uint64_t last = 0;
  for (uint32_t i = 0; i < digit_count; ++i) last += (digits[i].count - 1) * digits[i].live_stride;
  return last + 1;
}

Result<PieceClass> MakePieceClass(uint32_t granule_bits, std::span<const LiveDigit> digits) {
  if (granule_bits != 4 && granule_bits != 8 && granule_bits != 16 && granule_bits != 32 && granule_bits != 64) {
    return CorruptError("has granules of " + std::to_string(granule_bits) + " bits instead of 4, 8, 16, 32 or 64");
  }
  PieceClass shape;
  shape.granule_bits = granule_bits;
  const auto append = [&shape](const LiveDigit& digit) -> Status {
    if (shape.digit_count > 0 && Continues(shape.digits[shape.digit_count - 1], digit)) {
      LiveDigit& before = shape.digits[shape.digit_count - 1];
      const auto count = CheckedMul(before.count, digit.count);
      if (!count) return CorruptError("counts more than 2^64 granules");
      before = {*count, digit.canonical_stride, digit.live_stride};
      return {};
    }
    if (shape.digit_count == kMaxLiveDigits) {
      return UnsupportedError("needs more than " + std::to_string(kMaxLiveDigits) +
                              " digits, the run included; cut it into pieces");
    }
    shape.digits[shape.digit_count++] = digit;
    return {};
  };
  for (const LiveDigit& digit : digits) {
    if (digit.count == 0) return CorruptError("has a digit of count 0");
    if (digit.count > 1) XORBIT_RETURN_IF_ERROR(append(digit));
  }
  const LiveDigit* last = shape.digit_count > 0 ? &shape.digits[shape.digit_count - 1] : nullptr;
  if (last == nullptr || last->canonical_stride != 1 || last->live_stride != 1) XORBIT_RETURN_IF_ERROR(append({1, 1, 1}));
  XORBIT_RETURN_IF_ERROR(CheckNested(shape));
  return shape;
}

uint32_t ClassTable::Intern(const PieceClass& shape) {
  const auto [at, is_new] = index_of_.try_emplace(shape, static_cast<uint32_t>(classes_.size()));
  if (is_new) classes_.push_back(shape);
  return at->second;
}

Result<PieceClass> Normalised(const PieceClass& shape) {
  if (shape.digit_count > kMaxLiveDigits)
    return UnsupportedError("has more than " + std::to_string(kMaxLiveDigits) + " digits");
  return MakePieceClass(shape.granule_bits, std::span(shape.digits).first(shape.digit_count));
}

}  // namespace xorbit
