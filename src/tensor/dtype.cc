#include "tensor/dtype.h"

#include <array>

namespace xorbit {
namespace {

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;
  uint32_t bits;
};

constexpr std::array kDtypes = {
    DtypeInfo{Dtype::kBool, "BOOL", 8},
    DtypeInfo{Dtype::kU8, "U8", 8},
    DtypeInfo{Dtype::kI8, "I8", 8},
    DtypeInfo{Dtype::kF8E5M2, "F8_E5M2", 8},
    DtypeInfo{Dtype::kF8E4M3, "F8_E4M3", 8},
    DtypeInfo{Dtype::kF8E8M0, "F8_E8M0", 8},
    DtypeInfo{Dtype::kI16, "I16", 16},
    DtypeInfo{Dtype::kU16, "U16", 16},
    DtypeInfo{Dtype::kF16, "F16", 16},
    DtypeInfo{Dtype::kBF16, "BF16", 16},
    DtypeInfo{Dtype::kI32, "I32", 32},
    DtypeInfo{Dtype::kU32, "U32", 32},
    DtypeInfo{Dtype::kF32, "F32", 32},
    DtypeInfo{Dtype::kI64, "I64", 64},
    DtypeInfo{Dtype::kU64, "U64", 64},
    DtypeInfo{Dtype::kF64, "F64", 64},
    DtypeInfo{Dtype::kC64, "C64", 64},
    DtypeInfo{Dtype::kF4, "F4", 4},
    DtypeInfo{Dtype::kF6E2M3, "F6_E2M3", 6},
    DtypeInfo{Dtype::kF6E3M2, "F6_E3M2", 6},
    DtypeInfo{Dtype::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    DtypeInfo{Dtype::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
};

// The table is indexed by code, so its order is checked where it is made.
constexpr bool InOrder() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<size_t>(kDtypes[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(InOrder());

const DtypeInfo& InfoOf(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype) - 1]; }

}  // namespace

std::string_view NameOf(Dtype dtype) { return InfoOf(dtype).name; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeFromCode(uint8_t code) {
  if (code < 1 || code > kDtypes.size()) return std::nullopt;
  return static_cast<Dtype>(code);
}

uint32_t BitsOf(Dtype dtype) { return InfoOf(dtype).bits; }

uint32_t UnitBytesOf(Dtype dtype) {
  const uint32_t bits = BitsOf(dtype);
  return bits < 8 ? 1 : bits / 8;
}

}  // namespace xorbit
