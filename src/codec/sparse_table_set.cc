#include "codec/sparse_table_set.h"

#include <algorithm>
#include <numeric>

namespace xorbit {
namespace {

uint64_t TotalOf(const Histogram& histogram) { return std::accumulate(histogram.begin(), histogram.end(), uint64_t{0}); }

// A plane is raw unless coding it, table included, takes fewer bits than its bytes.
SegmentTable MakePlaneTable(const Histogram& histogram) {
  SegmentTable table{TableKind::kCoded, NormalizeHistogram(histogram)};
  Buffer bytes;
  AppendFrequencies(bytes, table.frequencies, kValueSymbols);
  const uint64_t coded16 = CodedCost16(histogram, table.frequencies) + (uint64_t{8 * bytes.size()} << 16);
  if (coded16 >= TotalOf(histogram) << (16 + 3)) return {TableKind::kRaw, {}};
  return table;
}

// The tables in their stored order, with the number of symbols of each.
template <typename Tables, typename Visit>
void ForEachTable(Tables& tables, uint32_t unit_bytes, Visit&& visit) {
  visit(tables.gaps, kGapSymbols);
  for (uint32_t p = 0; p < unit_bytes; ++p) visit(tables.planes[p], kValueSymbols);
  for (uint32_t p = 0; p < unit_bytes; ++p) visit(tables.dense_planes[p], kValueSymbols);
}

// Sparse tables are there together or not at all, and so are dense ones; gaps are never raw.
bool KindsMakeSense(const SegmentTables& tables, uint32_t unit_bytes) {
  if (tables.gaps.kind == TableKind::kRaw || (!tables.has_sparse() && !tables.has_dense())) return false;
  for (uint32_t p = 0; p < unit_bytes; ++p) {
    if ((tables.planes[p].kind != TableKind::kAbsent) != tables.has_sparse()) return false;
    if ((tables.dense_planes[p].kind != TableKind::kAbsent) != tables.has_dense()) return false;
  }
  return true;
}

}  // namespace

SegmentTables MakeTables(const SegmentHistograms& histograms, uint32_t unit_bytes) {
  SegmentTables tables;
  if (TotalOf(histograms.planes[0]) > 0) {
    // A lone change in every run leaves no gaps; a table of one symbol keeps the format free of that case.
    Histogram gaps = histograms.gaps;
    if (TotalOf(gaps) == 0) gaps[0] = 1;
    tables.gaps = {TableKind::kCoded, NormalizeHistogram(gaps)};
    for (uint32_t p = 0; p < unit_bytes; ++p) tables.planes[p] = MakePlaneTable(histograms.planes[p]);
  }
  if (TotalOf(histograms.dense_planes[0]) > 0) {
    for (uint32_t p = 0; p < unit_bytes; ++p) tables.dense_planes[p] = MakePlaneTable(histograms.dense_planes[p]);
  }
  return tables;
}

SegmentTables WorthKeeping(const SegmentTables& tables, const TableSavings& savings, uint32_t unit_bytes) {
  SegmentTables kept = tables;
  SegmentTables without_sparse = tables;
  without_sparse.gaps = {};
  without_sparse.planes = {};
  const uint64_t table_bytes = SerializeTables(tables, unit_bytes).size();
  if (table_bytes - SerializeTables(without_sparse, unit_bytes).size() >= savings.sparse_bytes) kept = without_sparse;
  SegmentTables without_dense = kept;
  without_dense.dense_planes = {};
  const uint64_t kept_bytes = SerializeTables(kept, unit_bytes).size();
  if (kept_bytes - SerializeTables(without_dense, unit_bytes).size() >= savings.dense_bytes) kept = without_dense;
  return kept;
}

bool MustEncodeAgain(const SegmentTables& kept, const TableSavings& savings) {
  return (savings.sparse_count > 0 && !kept.has_sparse()) || (savings.dense_count > 0 && !kept.has_dense());
}

Buffer SerializeTables(const SegmentTables& tables, uint32_t unit_bytes) {
  Buffer out;
  if (!tables.has_sparse() && !tables.has_dense()) return out;
  ForEachTable(tables, unit_bytes,
               [&](const SegmentTable& table, uint32_t) { out.push_back(static_cast<uint8_t>(table.kind)); });
  ForEachTable(tables, unit_bytes, [&](const SegmentTable& table, uint32_t symbol_count) {
    if (table.kind == TableKind::kCoded) AppendFrequencies(out, table.frequencies, symbol_count);
  });
  return out;
}

Result<SegmentTables> ParseTables(ConstBytes bytes, uint32_t unit_bytes) {
  SegmentTables tables;
  if (bytes.empty()) return tables;
  ByteReader reader(bytes);
  Status status;
  ForEachTable(tables, unit_bytes, [&](SegmentTable& table, uint32_t) {
    if (!status.ok()) return;
    const Result<uint8_t> kind = reader.ReadLe<uint8_t>("a table's kind");
    if (!kind.ok()) {
      status = kind.status();
    } else if (*kind > static_cast<uint8_t>(TableKind::kCoded)) {
      status = CorruptError("unknown kind of table " + std::to_string(*kind));
    } else {
      table.kind = static_cast<TableKind>(*kind);
    }
  });
  XORBIT_RETURN_IF_ERROR(status);
  if (!KindsMakeSense(tables, unit_bytes)) return CorruptError("the kinds of the sparse codec's tables contradict each other");
  ForEachTable(tables, unit_bytes, [&](SegmentTable& table, uint32_t symbol_count) {
    if (!status.ok() || table.kind != TableKind::kCoded) return;
    Result<Frequencies> frequencies = ReadFrequencies(reader, symbol_count);
    if (!frequencies.ok()) {
      status = frequencies.status();
    } else {
      table.frequencies = *frequencies;
    }
  });
  XORBIT_RETURN_IF_ERROR(status);
  if (reader.remaining() != 0) return CorruptError("bytes after the sparse codec's last table");
  return tables;
}

}  // namespace xorbit
