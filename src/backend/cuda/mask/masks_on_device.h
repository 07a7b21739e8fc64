// Masks in slots as kernels see them, beside the update whose tiles they are (update_on_device.h): a frame's mask is cut into
// tiles, which are placed in live memory as any tile is, and whose bytes are the XOR values of all their elements.
#pragma once

#include "backend/cuda/mask/frame_on_device.h"

namespace xorbit::cuda {

// What one warp takes at a time.
inline constexpr uint32_t kMaskTileBytes = 1U << 16;

static_assert(kMaskTileBytes % kGroupWordBytes == 0);

// Memory for the masks of one batch.
struct MaskSlot {
  uint8_t* masks;
  const uint32_t* groups;  // null if its decoder marks none
};

struct MasksOnDevice {
  const FrameOnDevice* frames;
  const uint32_t* frame_of_tile;  // by tile of the update
  const uint32_t* decoded_bytes;  // by frame, as its decoder left it
  FrameState* states;
  uint64_t* applied_count;  // frames whose changes are in live memory
};

// Consecutive frames whose masks are in one slot, and their tiles.
struct MaskBatch {
  uint64_t frame_begin;
  uint64_t frame_end;
  uint64_t tile_begin;
  uint64_t tile_end;
  uint64_t slot_bytes;  // of the slot that it uses
};

enum class MaskPass : uint8_t {
  kPreflight,  // reads live memory
  kApply,      // XORs frames that are not applied, by changes of what is there, which it sums
  kUndo,       // XORs frames that are
};

}  // namespace xorbit::cuda
