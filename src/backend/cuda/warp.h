// What the lanes of a warp do together, and how they touch memory that others touch too.
//
// Device code of this folder stands in plain headers that use only these functions. nvcc compiles them to the instructions of
// the same names; without it they are calls into an emulator (testing/warp_emulator.h), so that the logic of every kernel is
// tested, lane by lane and under sanitizers, on machines without a GPU.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define XORBIT_DEVICE __device__ __forceinline__
// Rare paths are calls: inlined, they would be compiled once for each unit, mode and way to write, and take registers there.
#define XORBIT_DEVICE_RARE inline __device__ __noinline__
#else
#define XORBIT_DEVICE inline
#define XORBIT_DEVICE_RARE inline
#endif

namespace xorbit::cuda {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kVectorBytes = 16;  // the most that a lane reads or writes at once

#ifdef __CUDACC__

XORBIT_DEVICE uint32_t Lane() { return threadIdx.x % kWarpLanes; }
XORBIT_DEVICE uint32_t Ballot(bool vote) { return __ballot_sync(kAllLanes, vote); }
XORBIT_DEVICE uint32_t ShuffleUp(uint32_t value, uint32_t distance) { return __shfl_up_sync(kAllLanes, value, distance); }
XORBIT_DEVICE uint32_t ShuffleFrom(uint32_t value, uint32_t lane) { return __shfl_sync(kAllLanes, value, lane); }
XORBIT_DEVICE uint64_t ShuffleXor(uint64_t value, uint32_t mask) { return __shfl_xor_sync(kAllLanes, value, mask); }
XORBIT_DEVICE void SyncWarp() { __syncwarp(); }
XORBIT_DEVICE uint32_t CountBits(uint32_t bits) { return static_cast<uint32_t>(__popc(bits)); }
XORBIT_DEVICE uint32_t MultiplyHigh(uint32_t a, uint32_t b) { return __umulhi(a, b); }
XORBIT_DEVICE uint32_t CountBits(uint64_t bits) { return static_cast<uint32_t>(__popcll(bits)); }
// Of a number that is not 0.
XORBIT_DEVICE uint32_t CountTrailingZeros(uint32_t bits) { return static_cast<uint32_t>(__ffs(static_cast<int>(bits)) - 1); }
XORBIT_DEVICE uint32_t CountTrailingZeros(uint64_t bits) {
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(bits)) - 1);
}
// The 32 bits from bit `shift` < 32 of high:low on.
XORBIT_DEVICE uint32_t FunnelShift(uint32_t low, uint32_t high, uint32_t shift) { return __funnelshift_r(low, high, shift); }
XORBIT_DEVICE uint32_t AtomicXor(uint32_t* word, uint32_t bits) { return atomicXor(word, bits); }
XORBIT_DEVICE void AtomicAdd(uint64_t* sum, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}
XORBIT_DEVICE void AtomicAdd(uint32_t* sum, uint32_t value) { atomicAdd(sum, value); }
XORBIT_DEVICE void AtomicOr(uint32_t* word, uint32_t bits) { atomicOr(word, bits); }
// Adds, and returns what was there before.
XORBIT_DEVICE uint64_t FetchAdd(uint64_t* sum, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}
XORBIT_DEVICE void AtomicMin(uint64_t* least, uint64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(least), static_cast<unsigned long long>(value));
}
// Asks for the line that holds a payload's byte, without waiting.
XORBIT_DEVICE void PrefetchBody(const uint8_t* byte) { asm volatile("prefetch.global.L2 [%0];" ::"l"(byte)); }
// A read of a payload's bytes, which nobody changes while a kernel runs.
template <typename T>
XORBIT_DEVICE T LoadBody(const T* from) {
  return __ldg(from);
}
// A read that goes past the first-level cache, where atomics of other multiprocessors do not show.
template <typename T>
XORBIT_DEVICE T LoadLive(const T* from) {
  return __ldcg(from);
}

#else

uint32_t Lane();
uint32_t Ballot(bool vote);
uint32_t ShuffleUp(uint32_t value, uint32_t distance);
uint32_t ShuffleFrom(uint32_t value, uint32_t lane);
uint64_t ShuffleXor(uint64_t value, uint32_t mask);
void SyncWarp();
inline uint32_t CountBits(uint32_t bits) { return static_cast<uint32_t>(std::popcount(bits)); }
inline uint32_t MultiplyHigh(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
inline uint32_t CountBits(uint64_t bits) { return static_cast<uint32_t>(std::popcount(bits)); }
inline uint32_t CountTrailingZeros(uint32_t bits) { return static_cast<uint32_t>(std::countr_zero(bits)); }
inline uint32_t CountTrailingZeros(uint64_t bits) { return static_cast<uint32_t>(std::countr_zero(bits)); }
inline uint32_t FunnelShift(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> shift);
}
// Lanes of an emulated warp run one at a time.
inline uint32_t AtomicXor(uint32_t* word, uint32_t bits) {
  const uint32_t old = *word;
  *word = old ^ bits;
  return old;
}
inline void AtomicAdd(uint64_t* sum, uint64_t value) { *sum += value; }
inline void AtomicAdd(uint32_t* sum, uint32_t value) { *sum += value; }
inline void AtomicOr(uint32_t* word, uint32_t bits) { *word |= bits; }
inline uint64_t FetchAdd(uint64_t* sum, uint64_t value) {
  const uint64_t before = *sum;
  *sum += value;
  return before;
}
inline void AtomicMin(uint64_t* least, uint64_t value) { *least = value < *least ? value : *least; }
inline void PrefetchBody(const uint8_t* /*byte*/) {}
template <typename T>
T LoadBody(const T* from) {
  return *from;
}
template <typename T>
T LoadLive(const T* from) {
  return *from;
}

#endif

XORBIT_DEVICE uint64_t ShuffleFrom(uint64_t value, uint32_t lane) {
  const uint32_t low = ShuffleFrom(static_cast<uint32_t>(value), lane);
  return uint64_t{ShuffleFrom(static_cast<uint32_t>(value >> 32), lane)} << 32 | low;
}
XORBIT_DEVICE uint32_t LanesBelow() { return (uint32_t{1} << Lane()) - 1; }
XORBIT_DEVICE bool AnyLane(bool vote) { return Ballot(vote) != 0; }
// value + the sum of `distance` lanes below it, if this lane has one so far below.
XORBIT_DEVICE uint32_t AddFromBelow(uint32_t value, uint32_t distance) {
#ifdef __CUDA_ARCH__
  // The shuffle itself tells which lanes have one.
  asm volatile(
      "{ .reg .u32 below; .reg .pred has;\n"
      "  shfl.sync.up.b32 below|has, %0, %1, 0, -1;\n"
      "  @has add.u32 %0, %0, below; }"
      : "+r"(value)
      : "r"(distance));
  return value;
#else
  const uint32_t below = ShuffleUp(value, distance);
  return Lane() >= distance ? value + below : value;
#endif
}
// Sum over this lane and those below it, modulo 2^32.
XORBIT_DEVICE uint32_t InclusiveSum(uint32_t value) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t distance = 1; distance < kWarpLanes; distance *= 2) value = AddFromBelow(value, distance);
  return value;
}
// Sum over all lanes, modulo 2^64, in every lane.
XORBIT_DEVICE uint64_t WarpSum(uint64_t value) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t mask = kWarpLanes / 2; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}

}  // namespace xorbit::cuda
