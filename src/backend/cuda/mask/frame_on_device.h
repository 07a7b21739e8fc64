// A mask codec's frame as kernels see it, and what is known of it while an update runs.
//
// Frames are decoded by batches into a *slot*, device memory in which the masks of one batch lie side by side, and from there
// into live memory. A frame is *open* to a pass if its mask in the slot is the one that it should be: nothing else is used.
#pragma once

#include <cstdint>

namespace xorbit::cuda {

// How inner frames are coded.
enum class InnerKind : uint8_t { kSnappy, kLz4, kZstd };

// A slot's masks in *groups* of so many bytes, the least that memory moves: decoders that mark them write those in which
// something changes, and leave a bit for each. All others are zero, whatever the slot holds there. A mask begins with a word of
// 32 groups of its own.
inline constexpr uint32_t kGroupBytes = 32;
inline constexpr uint32_t kGroupWordBytes = 32 * kGroupBytes;
inline constexpr uint64_t kMaskAlignment = kGroupWordBytes;
inline constexpr uint64_t kSlotAlignment = 256;  // of a slot's memory

// Inner frames lie end to end at any byte, in memory that begins and ends on a multiple of this: vectors that hold a frame's
// ends may be read whole.
inline constexpr uint64_t kInnerAlignment = 16;

struct FrameOnDevice {
  const uint8_t* inner;  // device or pinned host memory
  uint64_t slot_offset;  // of its mask, in the slot of its batch
  uint32_t inner_bytes;
  uint32_t mask_bytes;
  uint64_t first;  // segment element
  uint64_t first_tile;
  uint32_t segment_index;
  uint32_t change_count;  // what its record says
};

// Why a frame is not what it should be.
enum class FrameError : uint8_t {
  kNone = 0,
  kTruncated,     // a token reaches past the frame
  kLength,        // it decodes to another length than its mask's
  kDistance,      // a copy from before the mask
  kOverrun,       // a token writes past the mask
  kWrongContent,  // not the bytes that pre-flight saw
  kCount,         // its mask does not have as many changes as its record counts
};

// What a decoder leaves for a frame that it could not decode, and what stands there before it runs.
inline constexpr uint32_t kNotDecoded = ~uint32_t{0};

// By frame.
struct FrameState {
  uint64_t hash;            // of the mask, where its decoder needs proof: as pre-flight saw it
  uint64_t seen_hash;       // of the mask in the slot
  uint32_t seen_changes;    // elements that change, as this pass counted them
  uint32_t is_open;         // to the pass that runs
  uint32_t is_applied;      // its changes are in live memory
  uint32_t decoding_error;  // FrameError, of decoders that know
};

}  // namespace xorbit::cuda
