// An update as kernels see it: plain records that the host fills and copies, all pointers into device memory (or pinned host
// memory, for a body that was not staged).
//
// Work is handed out in *items* of kWarpsPerBlock consecutive tiles of one segment: a block keeps that segment's tables in
// shared memory and each of its warps decodes one tile.
#pragma once

#include <array>
#include <cstdint>

#include "change/state_digest.h"
#include "codec/sparse_format.h"
#include "tensor/live_map.h"
#include "tensor/segment.h"

namespace xorbit::cuda {

inline constexpr uint32_t kWarpsPerBlock = 8;
inline constexpr int8_t kRawPlane = -1;

// One coded table in the shape that a warp reads: 5 KiB, so that even a segment of 8-byte units leaves room for several blocks.
struct SymbolTable {
  std::array<uint8_t, kFrequencySum> symbols;     // of each slot
  std::array<uint32_t, kValueSymbols> intervals;  // of each symbol: frequency | cumulative << 16
};
static_assert(sizeof(SymbolTable) == 5120);

// One part of a segment, and where its tensor lies in live memory. A table of them covers a segment without holes; the last
// entry, at the segment's end, is a sentinel.
struct LivePart {
  uint64_t first;   // segment element
  uint64_t origin;  // of that element, in its tensor
  uint64_t tensor_key;
  uint32_t digit_begin;  // in UpdateOnDevice::digits
  uint32_t digit_count;
  uint32_t track_begin;  // of its tensor, in UpdateOnDevice::track_starts
  uint32_t track_count;
  uint32_t written_track_count;  // the tracks after these are only read
  uint32_t granule_bits;         // of the tensor's pieces
  uint32_t shadow_begin;         // of the tensor, in BindingsOnDevice::shadows
  uint32_t shadow_count;
  uint32_t tie_index;  // in BindingsOnDevice::ties, or kNotTied
  uint32_t is_plain;   // 1: elements are whole, and each lies in one place at most, which counts and is written
};
inline constexpr uint32_t kNotTied = ~uint32_t{0};

// Elements of a segment that lie in live memory row by row, each once, whole and aligned: what a warp finds them by
// (box_finder.h). Elements of a row that are not there belong to other ranks.
struct LiveBox {
  uint64_t first;        // segment element
  uint64_t end;          // one past the last that is there
  uint64_t address;      // of the first; 0: none of them is there
  uint64_t tensor_byte;  // of the first
  uint64_t tensor_key;
  uint64_t live_stride;    // bytes from one row to the next
  uint64_t tensor_stride;  // likewise, in the tensor
  uint32_t period;         // segment elements from one row to the next, at most kMaxBoxPeriod; 0: there is one row
  uint32_t length;         // elements of a row that are there, from its first on
  uint32_t magic;          // x / period = x * magic >> 32 >> shift for x < 2^31
  uint32_t shift;
};
static_assert(sizeof(LiveBox) == 72);
inline constexpr uint32_t kMaxBoxPeriod = 1U << 30;

// What of a region may be touched as aligned 32-bit words: from its first byte to an end that may lie behind its last.
struct RegionBounds {
  uint64_t begin;
  uint64_t end;
};

struct SegmentOnDevice {
  const uint8_t* body;
  uint64_t body_bytes;
  const TileRecord* records;
  uint64_t record_count;
  const SymbolTable* tables;
  uint32_t table_count;
  uint32_t unit_bytes;
  int8_t gap_table;  // index into tables
  std::array<int8_t, kMaxPlanes> planes;
  std::array<int8_t, kMaxPlanes> dense_planes;
  uint8_t has_digests;
  uint32_t payload_index;
  const LivePart* parts;
  uint64_t part_count;  // without the sentinel
  const LiveBox* boxes;
  uint8_t is_absent;    // 1: this rank lacks the segment's presence group
  uint64_t first_tile;  // tiles of all segments before
  uint64_t first_item;
  uint8_t* old_values;  // undo log: unit_bytes for each of the segment's changes, or null
};

// What preparing leaves for each tile.
struct TileStart {
  uint64_t first_change;  // changes of the segment's tiles before
  uint32_t part_index;    // of the tile's first element
  uint32_t box_index;     // likewise; those after it reach to the tile's last element. kNoBox: the tile goes the slow way
  uint32_t bitmap;        // where its form begins in UpdateOnDevice::bitmaps, in kBitmapAlignment bytes. kNoBitmap: it has none
};
inline constexpr uint32_t kNoBox = ~uint32_t{0};
inline constexpr uint32_t kNoBitmap = ~uint32_t{0};
inline constexpr uint64_t kBitmapAlignment = 128;

// Lane 0 of the state digest over changes of one tile.
struct TileSums {
  uint64_t before;
  uint64_t after;
};

// Why a tile was refused. Of two reasons to refuse live memory the first here is told, as on the host.
enum class TileError : uint8_t {
  kNone = 0,
  kTruncated,
  kPadding,
  kLaneStart,
  kStreams,  // symbols leave the tile's bytes or its span
  kLaneEnd,
  kUnusedBytes,
  kLastElement,
  kNoChange,
  kCount,  // a dense or raw tile's changes are not those that its record counts
  kLength,
  kReplica,     // copies of one element differ
  kIncomplete,  // this rank does not hold every element that changes
  kDigest,      // live weights are not those that the record was made for
};

// One for each payload. Reports are tile << 8 | TileError, the least one: kNoReport if there is none.
inline constexpr uint64_t kNoReport = ~uint64_t{0};
struct PayloadCounters {
  uint64_t first_corrupt;
  uint64_t first_refused;
  uint64_t local_change_count;  // elements that apply writes; every copy counts
  uint64_t lane0_change;        // after - before over the changes that this rank counts
  uint64_t lane1_change;
};

// What one launch goes through.
struct ItemRange {
  uint64_t begin;
  uint64_t end;
  uint64_t segment_index;  // of item `begin`
};

struct UpdateOnDevice {
  const SegmentOnDevice* segments;  // one more than segment_count: a sentinel whose first_item is that of all items' end
  uint64_t segment_count;
  ItemRange items;
  uint32_t table_bytes;  // the most that a segment's tables take
  const TileStart* starts;
  TileSums* local_sums;       // by tile, over every copy that is written: what pre-flight found, and apply must find again
  TileSums* counted_sums;     // by tile, over what this rank counts: what the record's are compared with
  PayloadCounters* counters;  // by payload
  const Digit* digits;        // of parts
  const uint32_t* track_starts;
  const Piece* pieces;
  const PieceClass* classes;
  const RegionBounds* regions;
  uint8_t* bitmaps;            // room for the forms of dense tiles (bitmap_form.h), or null: then no tile has one
  uint64_t tile_count;         // of all segments
  uint64_t bitmap_tile_count;  // of these
  uint8_t inverse;             // the delta is taken from its target to its base
  uint8_t partial;             // sums are compared by the cohort, not by tile
};

// An image that is cast from a kept copy, element by element.
struct ShadowOnDevice {
  Piece piece;             // places the image in its region
  uint64_t kept_address;   // of the whole tensor's canonical copy
  uint64_t image_address;  // of the region
  uint32_t image_bytes;    // of one element
  Cast cast;
};

// What an update does to a tensor of several names, under one of them: the same under all, or they must not be tied.
struct TieOnDevice {
  uint64_t key;     // the same for all names
  StateDigest sum;  // of the XORs, by position
};

// What the update kernels do not look at (binding_tile.h).
struct BindingsOnDevice {
  const ShadowOnDevice* shadows;
  TieOnDevice* ties;
};

enum class BindingStep : uint8_t {
  kCheck,      // of pre-flight: only reads. Images are those of their kept copies; sums what is tied
  kFollowXor,  // kept copies have been XORed, there or back: bring the images after them
  kStore,      // absolute, by the undo log: old images become new ones; after the apply of that name
  kRestore,    // likewise, back
};

}  // namespace xorbit::cuda
