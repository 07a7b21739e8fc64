// One segment of a sender as kernels see it: plain records, all pointers into device memory.
//
// A segment's runs are cut into *strips*, which lie within one window and are contiguous in old and in new memory. A warp reads
// a strip line by line: a *line* is what its lanes load at once of each side. Changes leave it in no order, because a place for
// them is only reserved once they are counted; what a line left, and where, is kept for each line, and a *group* of strips is
// what a warp puts into order afterwards. So old and new are read once, and nothing waits for a neighbour.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cuda/warp.h"
#include "change/change_source.h"
#include "change/state_digest.h"
#include "codec/sparse_format.h"
#include "codec/sparse_table.h"

namespace xorbit::cuda {

inline constexpr uint32_t kVectorsAtOnce = 4;                               // of each lane and side
inline constexpr uint32_t kLineBytes = 32 * kVectorBytes * kVectorsAtOnce;  // 2 KiB
inline constexpr uint32_t kLinesPerStrip = 8;
inline constexpr uint32_t kStripBytes = kLineBytes * kLinesPerStrip;
inline constexpr uint32_t kStripAlignment = 128;  // of the first line, where the strip's bytes may begin later
inline constexpr uint32_t kStripsPerGroup = 32;

struct Strip {
  uint64_t old_address;
  uint64_t new_address;
  uint64_t first_element;  // of the segment
  uint32_t element_count;
  uint32_t span_index;
};
static_assert(sizeof(Strip) == 32);

struct StripRange {
  uint64_t first;
  uint64_t end;
};

// Bytes before a strip's first one that its first line covers, so that vectors are aligned. Elements that are not aligned
// themselves are read from where they lie.
constexpr uint64_t HeadBytesOf(uint64_t old_address, uint32_t unit_bytes) {
  return old_address % unit_bytes == 0 ? old_address % kStripAlignment : 0;
}

// What a line left: where in the unordered store, and how many changes.
constexpr uint64_t PackLine(uint64_t start, uint32_t count) { return start << 16 | count; }
constexpr uint64_t StartOfLine(uint64_t line) { return line >> 16; }
constexpr uint32_t CountOfLine(uint64_t line) { return static_cast<uint32_t>(line & 0xffff); }

// Where a stretch of the segment lies in its tensor; the last entry, at the segment's end, is a sentinel.
struct TensorSpan {
  uint64_t first;        // segment element
  uint64_t tensor_byte;  // of that element
  uint64_t tensor_key;
};

inline constexpr uint32_t kTileDense = 1;
inline constexpr uint32_t kTileFollows = 2;  // the gap before the tile's first change counts in the histogram
struct SendTile {
  uint64_t first_change;  // of the segment
  uint32_t change_count;
  uint16_t flags;
  uint16_t earlier_count;  // a dense tile's: changes of its window before its first one, which other tiles have
};
static_assert(sizeof(SendTile) == 16);

// What a tile's changes are, before anything is coded.
struct TileSurvey {
  uint64_t first;   // element of the segment
  uint64_t before;  // lane 0 over the changed elements
  uint64_t after;
  uint32_t span;
  uint32_t varint_bytes;  // of the gaps between the tile's changes
};

inline constexpr uint32_t kMostTables = 1 + 2 * kMaxPlanes;
// One for gaps, then value planes, then dense ones: unit_bytes each.
struct SendHistograms {
  uint64_t counts[kMostTables][kValueSymbols];
};

inline constexpr int8_t kNoTable = -1;    // a raw plane
inline constexpr int8_t kOneSymbol = -2;  // a coded plane whose symbols are all the same: coding them does nothing
// A coded table in the shape that the encoder reads: one load of eight bytes a symbol.
struct SendTable {
  struct Entry {
    uint32_t packed;      // (4096 - frequency) | shift << 12 | addend << 17 | cumulative << 20
    uint32_t reciprocal;  // x / frequency = (x + addend) * reciprocal >> 32 >> shift
  };
  std::array<Entry, kValueSymbols + 1> entries;  // coding the last one, kNoSymbol, does nothing
};
inline constexpr uint32_t kNoSymbol = kValueSymbols;
inline constexpr uint32_t kShiftAt = 12;
inline constexpr uint32_t kAddendAt = 17;
inline constexpr uint32_t kCumulativeAt = 20;

// Which coded tables there are, at which place.
struct SendTables {
  const SendTable* tables;
  uint32_t table_count;
  uint8_t has_sparse;
  uint8_t has_dense;
  int8_t gaps;
  std::array<int8_t, kMaxPlanes> planes;
  std::array<int8_t, kMaxPlanes> dense_planes;
};

// How a tile was coded, besides its record.
struct TileCode {
  uint32_t byte_count;
  uint32_t word_count;  // 16-bit words, at the end of the tile's scratch
  uint32_t bit_count;   // raw gap bits, at the end of the part before them
  uint32_t unused;
  std::array<uint32_t, kLanes> states;
};

// Where a warp of the diff was in its piece of the unordered store: it goes on there in the next launch.
struct DiffCursor {
  uint64_t next;
  uint64_t left;
};

struct SendCounters {
  uint64_t change_count;
  uint64_t stored_count;      // places given out in the unordered store
  StateDigest base;           // of the old bytes, if the diff sums it
  uint64_t has_dense_window;  // this and has_long_tile 0: tiles are what PlanTiles cuts of one run, windows aside
  // Of one survey.
  uint64_t has_long_tile;
  uint64_t lane0_change;
  uint64_t lane1_change;
  uint64_t unsplit_count;  // tiles whose digest does not tell old from new, although they have several changes
  // Of one encoding.
  uint64_t body_bytes;
  uint64_t sparse_count;
  uint64_t sparse_saved_bytes;
  uint64_t dense_count;
  uint64_t dense_saved_bytes;
};

struct SendOnDevice {
  uint32_t unit_bytes;
  uint64_t element_count;
  const Strip* strips;
  uint64_t strip_count;
  uint64_t group_count;
  const TensorSpan* spans;
  uint64_t span_count;  // without the sentinel
  SendCounters* counters;

  // The unordered store.
  uint64_t* lines;  // kLinesPerStrip for each strip
  uint8_t* stored;
  uint64_t stored_capacity;
  DiffCursor* cursors;     // of each warp
  uint64_t* group_starts;  // changes of the groups before; one more than groups
  uint64_t* chunk_sums;    // of a scan
  uint32_t* window_counts;

  uint8_t* changes;  // all of them in order
  uint64_t change_capacity;

  const SendTile* tiles;  // null: kMaxTileChanges each, in one run
  uint64_t tile_count;    // with tiles
  uint64_t tile_capacity;
  SendHistograms* histograms;
  SendTables tables;
  TileSurvey* surveys;
  TileRecord* records;
  TileCode* codes;
  uint8_t* scratch;
  uint8_t* body;
  uint64_t body_capacity;
};

// Bytes of scratch for each change: four for raw bits, of which there are 29 at most, then a word for each of its symbols. A
// dense tile has two elements a change at most, fewer for larger units, and their words take no more.
inline constexpr uint64_t kBitBytesPerChange = 4;
constexpr uint64_t ScratchBytesPerChange(uint32_t unit_bytes) { return 8 + 2 * uint64_t{unit_bytes}; }
// No tile takes more than it would as plain varints.
constexpr uint64_t MostBodyBytesPerChange(uint32_t unit_bytes) { return uint64_t{unit_bytes} + 5; }

}  // namespace xorbit::cuda
