// Element types of safetensors files (https://huggingface.co/docs/safetensors, "Format"), and the unit in which each is
// compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xorbit {

// The numbers are part of the layout digest: never renumber, only append.
enum class Dtype : uint8_t {
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kF8E5M2 = 4,
  kF8E4M3 = 5,
  kF8E8M0 = 6,
  kI16 = 7,
  kU16 = 8,
  kF16 = 9,
  kBF16 = 10,
  kI32 = 11,
  kU32 = 12,
  kF32 = 13,
  kI64 = 14,
  kU64 = 15,
  kF64 = 16,
  kC64 = 17,
  kF4 = 18,
  kF6E2M3 = 19,
  kF6E3M2 = 20,
  kF8E4M3FNUZ = 21,
  kF8E5M2FNUZ = 22,
};

// The name in a safetensors header, e.g. "BF16".
std::string_view NameOf(Dtype dtype);
std::optional<Dtype> ParseDtype(std::string_view name);
std::optional<Dtype> DtypeFromCode(uint8_t code);

// Bits of one element: 4, 6, 8, 16, 32 or 64.
uint32_t BitsOf(Dtype dtype);

// Bytes of the unit in which values are compared and coded: 1, 2, 4 or 8; sub-byte types are coded by the byte.
uint32_t UnitBytesOf(Dtype dtype);

}  // namespace xorbit
