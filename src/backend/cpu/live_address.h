// Live host memory by address: what lists of targets hold, and how a value counts in a sum that must be met again in the pause.
#pragma once

#include <cstdint>

#include "change/state_digest.h"

namespace xorbit {

// How many elements ahead loops over live memory ask for it. Changes lie on lines of their own, which no processor foresees, so
// what counts is that a line is there in time even where memory is busy: at 24 an apply took twice as long as at 160, and from
// there on it made no difference.
inline constexpr uint32_t kLiveLookAhead = 160;

inline uint64_t AddressOf(const uint8_t* byte) { return reinterpret_cast<uintptr_t>(byte); }
// Only of an address that AddressOf gave.
inline uint8_t* ByteAt(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }  // NOLINT(performance-no-int-to-ptr)

// What a value at this address counts in a sum of values. The same in one epoch of one process, which is how long an update
// waits; cheaper than a digest, because it needs to know no tensor.
inline uint64_t AddressWeight(uint64_t address) { return SplitMix64(address) | 1; }

}  // namespace xorbit
