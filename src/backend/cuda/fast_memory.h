// A block's shared memory by a base that is computed once: from a pointer, the compiler computes the address anew at each
// access, because it takes that to be cheap.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// A value that stays in its register.
XORBIT_DEVICE uint32_t Keep(uint32_t value) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(value));
#endif
  return value;
}

class FastMemory {
 public:
#ifdef __CUDACC__
  XORBIT_DEVICE explicit FastMemory(const void* base) : base_(Keep(static_cast<uint32_t>(__cvta_generic_to_shared(base)))) {}
  // Eight bytes, which nobody changes any more.
  XORBIT_DEVICE uint2 LoadPair(uint32_t at) const {
    uint2 pair;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(pair.x), "=r"(pair.y) : "r"(base_ + at));
    return pair;
  }
  // Adds one to a word.
  XORBIT_DEVICE void Count(uint32_t at) const { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(base_ + at) : "memory"); }

 private:
  uint32_t base_;
#else
  struct Pair {
    uint32_t x;
    uint32_t y;
  };
  explicit FastMemory(const void* base) : base_(static_cast<const uint8_t*>(base)) {}
  Pair LoadPair(uint32_t at) const { return *reinterpret_cast<const Pair*>(base_ + at); }
  void Count(uint32_t at) const { ++*reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(base_) + at); }

 private:
  const uint8_t* base_;
#endif
};

}  // namespace xorbit::cuda
