// A segment's tables: one for gaps, one for each value plane of sparse tiles, one for each value plane of dense tiles.
//
// Only what tiles use is stored. A plane whose table would not help is *raw*: its bytes stand in the tile as they are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "codec/sparse_table.h"

namespace xorbit {

// Stored as one byte each, in the order gap, planes, dense planes.
enum class TableKind : uint8_t {
  kAbsent = 0,  // no tile needs it
  kRaw = 1,     // planes only
  kCoded = 2,   // frequencies follow after the last kind byte
};

// What the changes of a segment look like.
struct SegmentHistograms {
  Histogram gaps{};                                  // symbols of gaps between consecutive changes of a run of sparse windows
  std::array<Histogram, kMaxPlanes> planes{};        // values of changes in sparse windows
  std::array<Histogram, kMaxPlanes> dense_planes{};  // values of all elements of dense windows
};

struct SegmentTable {
  TableKind kind = TableKind::kAbsent;
  Frequencies frequencies{};
};

struct SegmentTables {
  SegmentTable gaps;
  std::array<SegmentTable, kMaxPlanes> planes;
  std::array<SegmentTable, kMaxPlanes> dense_planes;
  bool has_sparse() const { return gaps.kind != TableKind::kAbsent; }
  bool has_dense() const { return dense_planes[0].kind != TableKind::kAbsent; }
};

SegmentTables MakeTables(const SegmentHistograms& histograms, uint32_t unit_bytes);

// How many tiles are coded with each table set, and what that saved over raw and plain tiles.
struct TableSavings {
  uint64_t sparse_count = 0;
  uint64_t sparse_bytes = 0;
  uint64_t dense_count = 0;
  uint64_t dense_bytes = 0;

  TableSavings& operator+=(const TableSavings& other) {
    sparse_count += other.sparse_count;
    sparse_bytes += other.sparse_bytes;
    dense_count += other.dense_count;
    dense_bytes += other.dense_bytes;
    return *this;
  }
};

// The tables without those that no tile uses or that cost more than they save.
SegmentTables WorthKeeping(const SegmentTables& tables, const TableSavings& savings, uint32_t unit_bytes);
// Whether some tile is coded with tables that `kept` no longer has.
bool MustEncodeAgain(const SegmentTables& kept, const TableSavings& savings);

// Empty if there are neither sparse nor dense tables.
Buffer SerializeTables(const SegmentTables& tables, uint32_t unit_bytes);
// kCorrupt unless the bytes are exactly what SerializeTables would write for some tables.
Result<SegmentTables> ParseTables(ConstBytes bytes, uint32_t unit_bytes);

}  // namespace xorbit
