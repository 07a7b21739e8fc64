// One tile's changes to one tile's bytes: all four modes, chosen by exact size.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "codec/sparse_kernels.h"
#include "codec/sparse_table_set.h"

namespace xorbit {

// The changes of a tile; not owned. offsets[0] = 0.
struct TileChanges {
  uint32_t count = 0;
  const uint32_t* offsets = nullptr;  // from the tile's first change
  const uint8_t* xors = nullptr;      // count * unit_bytes
  const uint8_t* olds = nullptr;      // likewise, or null without values
  uint32_t span() const { return offsets[count - 1]; }
};

struct EncodedTile {
  TileMode mode;
  uint64_t saved_bytes;  // by coding, against the best of raw and plain; 0 if not coded
};

// Reused from tile to tile so that the hot loop does not allocate. One thread.
class TileEncoder {
 public:
  // The tables must outlive the encoder. An absent sparse or dense set leaves raw and plain.
  TileEncoder(const SegmentTables& tables, uint32_t unit_bytes, const SparseKernels& kernels);

  // Appends the tile's bytes to `out`, padded with zeros to kTileAlignment.
  EncodedTile Append(const TileChanges& tile, bool dense, Buffer* out);

 private:
  // A tile's symbols and tables of one kind.
  struct Coder {
    bool present = false;
    EncodeTable gaps{};
    std::array<EncodeTable, kMaxPlanes> planes{};
    std::array<bool, kMaxPlanes> plane_is_raw{};
  };

  void FillCoder(const SegmentTable* gaps, const std::array<SegmentTable, kMaxPlanes>& planes, Coder* coder) const;
  void SplitPlanes(const uint8_t* values, uint32_t count);
  // Codes `count` rows of plane_symbols_ (and gap_symbols_ in a sparse tile), appends the tile.
  void AppendCoded(const Coder& coder, bool with_gaps, uint32_t count, Buffer* out);
  void AppendDense(const TileChanges& tile, Buffer* out);
  void AppendRaw(const TileChanges& tile, Buffer* out) const;
  void AppendPlain(const TileChanges& tile, Buffer* out) const;

  uint32_t unit_bytes_;
  const SparseKernels* kernels_;
  Coder sparse_;
  Coder dense_;
  Buffer gap_symbols_;
  std::array<Buffer, kMaxPlanes> plane_symbols_;
  Buffer elements_;  // a dense tile's XOR bytes, zeros included
  Buffer gap_bits_;
  GapCode gaps_;  // in the two buffers above
  std::vector<uint16_t> words_;
};

}  // namespace xorbit
