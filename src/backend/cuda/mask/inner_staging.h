// Inner frames as decoders read them: the outer Zstd undone on the CPU, hashed, segments' streams side by side in memory that
// the caller provides (pinned, so that a device reads it).
//
// Page-locking memory for all of it takes longer than everything else: a third of a second a gigabyte. So where it is copied on
// to a device, it comes by a few buffers in turn, whatever its length.
#pragma once

#include "backend/cuda/mask/mask_plan.h"

namespace xorbit::cuda {

// Bytes that StageInner needs.
uint64_t InnerStagingBytes(const MaskPlan& plan);

struct InnerStaging {
  int threads = 1;
  bool checks_hashes = true;
};

// Fills all of `target`, of InnerStagingBytes() and kInnerAlignment-aligned, with zeros between the streams. kCorrupt names an
// outer chunk that is not what its record says, or a frame that does not match its hash.
Status StageInner(const MaskPlan& plan, const InnerStaging& staging, MutableBytes target);

// Where the same bytes go when they come by pieces.
class InnerPieces {
 public:
  InnerPieces() = default;
  InnerPieces(const InnerPieces&) = delete;
  InnerPieces& operator=(const InnerPieces&) = delete;
  virtual ~InnerPieces() = default;

  // A buffer of PieceBufferBytes(), whose former contents nobody needs; what the one before holds stays as it is.
  virtual Result<MutableBytes> Next() = 0;
  // `piece`, in the buffer that Next gave last, is what StageInner would put at `offset` of its target. Pieces ascend. It stays
  // until Next has been called twice.
  virtual Status Take(uint64_t offset, ConstBytes piece) = 0;
};

// `piece_bytes`: at most so many at a time, a multiple of kOuterChunkBytes.
uint64_t PieceBufferBytes(const MaskPlan& plan, uint64_t piece_bytes);
// As StageInner. On failure some pieces have been taken.
Status StageInnerByPieces(const MaskPlan& plan, const InnerStaging& staging, uint64_t piece_bytes, InnerPieces* pieces);

// Lets the plan's frames point to where `target` lies, or a copy of it.
void PlaceInner(const uint8_t* target, MaskPlan* plan);

}  // namespace xorbit::cuda
