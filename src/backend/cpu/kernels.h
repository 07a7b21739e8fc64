// The CPU's inner loops, one set per instruction level: diff of a contiguous stretch, digest of whole blocks, and a plain sum
// as the yardstick for both.
//
// Kernels take raw pointers and trust them; DiffSource and ScanDigest check shapes and cut ragged ends. All levels give the
// same results. Each level is one file; its functions carry the target attribute themselves (not compiler flags for the file),
// so that no inline function of the standard library is compiled with instructions that another machine lacks.
#pragma once

#include <array>
#include <cstdint>

#include "base/cpu_level.h"
#include "change/state_digest.h"

namespace xorbit {

// Where a diff appends: structure of arrays as in WindowChanges, already pointing past what is there. Kernels may scribble on
// up to 64 bytes past the last entry that they append, but never past entry [element_count] by more than 64 bytes.
struct DiffOutput {
  uint16_t* positions;
  uint8_t* xors;
  uint8_t* olds;
};

// Appends the elements that differ between two stretches of `element_count` elements (at most 65536) and returns their number;
// element i counts as position first_position + i. Any alignment. Reads nothing outside the stretches, but asks the caches for
// old bytes `old_ahead_bytes` ahead of those that it reads; what lies there need not be memory.
using DiffKernel = uint32_t (*)(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t element_count,
                                uint32_t first_position, uint32_t old_ahead_bytes, const DiffOutput& output);

// A digest before its word factors: sums[lane][k % 2][k / 2] = sum over blocks of h_lane(block) * u_k, modulo 2^64. A block's
// factor is multiplied in first and the word's factor g last, once for all blocks, which needs no sum across a vector's
// elements; even and odd words stand apart because that is how 32 x 32 -> 64 bit multiplications find them.
struct alignas(64) DigestSums {
  uint64_t sums[2][2][kDigestWordsPerBlock / 2] = {};

  StateDigest Finish() const;
};

// Adds `block_count` whole 64-byte blocks of a tensor, the first of them block `first_block`. Any alignment of `bytes`.
using DigestKernel = void (*)(uint64_t tensor_key, uint64_t first_block, const uint8_t* bytes, uint64_t block_count,
                              DigestSums* sums);

// Sum of the bytes taken as little-endian 64-bit words, the last one padded with zeros: reads everything, computes next to
// nothing.
using SumKernel = uint64_t (*)(const uint8_t* bytes, uint64_t byte_count);

// How far ahead digest kernels ask for memory. Their arithmetic fills the window in which a core looks for further loads, so
// without this they wait for memory where a diff or a sum does not (docs/design/cpu-kernels.md).
inline constexpr uint64_t kDigestPrefetchBytes = 8192;

// How far ahead diff kernels ask for new bytes, and for old ones if the caller has no other wish: the steps on what they have
// found fill that window too.
inline constexpr uint32_t kDiffPrefetchBytes = 4096;

struct CpuKernels {
  std::array<DiffKernel, 4> diff;  // by log2 of the unit's bytes
  DigestKernel digest_blocks;
  SumKernel sum;
};

// `level` must be one of AvailableCpuLevels().
const CpuKernels& KernelsOf(CpuLevel level);

// One of these per level, where the architecture has it.
extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
extern const CpuKernels kNeonKernels;

}  // namespace xorbit
