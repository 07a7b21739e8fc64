#include "backend/cuda/send_plan.h"

#include <algorithm>
#include <bit>

namespace xorbit::cuda {
namespace {

uint64_t AddressOf(ConstBytes bytes) { return reinterpret_cast<uint64_t>(bytes.data()); }

// Elements until the strip that begins at this address must end: on a border of strips in old memory, so that only a run's
// first strip begins with a vector that is not aligned.
uint64_t StripElements(uint64_t old_address, uint32_t unit_bytes) {
  if (old_address % unit_bytes != 0) return kStripBytes / unit_bytes;
  return (kStripBytes - old_address % kStripBytes) / unit_bytes;
}

void CutRun(const Run& run, uint64_t old_address, uint64_t new_address, uint32_t unit_bytes, uint32_t span_index,
            std::vector<Strip>* strips) {
  for (uint64_t at = 0; at < run.element_count;) {
    const uint64_t first = run.segment_element + at;
    const uint64_t in_window = kWindowElements - first % kWindowElements;
    const uint64_t count =
        std::min({run.element_count - at, in_window, StripElements(old_address + at * unit_bytes, unit_bytes)});
    strips->push_back(
        {old_address + at * unit_bytes, new_address + at * unit_bytes, first, static_cast<uint32_t>(count), span_index});
    at += count;
  }
}

// With log2(frequency) rounded up to `bits`, the reciprocal is 2^(31 + bits) / frequency, rounded up or down: one of the two
// divides all x < frequency << 20 exactly.
SendTable::Entry MakeEntry(uint32_t frequency, uint32_t cumulative) {
  const uint32_t packed = (kFrequencySum - frequency) | cumulative << kCumulativeAt;
  if (frequency == 1) return {packed | 1U << kAddendAt, UINT32_MAX};  // (x + 1) * (2^32 - 1) >> 32 is x
  const auto bits = static_cast<uint32_t>(std::bit_width(frequency - 1));
  const uint64_t power = uint64_t{1} << (31 + bits);
  const uint64_t up = DivideRoundUp(power, uint64_t{frequency});
  const uint64_t excess = up * frequency - power;
  const bool rounds_down = (uint64_t{frequency} << 20) * excess > power;
  const auto reciprocal = static_cast<uint32_t>(rounds_down ? up - 1 : up);
  return {packed | (bits - 1) << kShiftAt | (rounds_down ? 1U : 0U) << kAddendAt, reciprocal};
}

}  // namespace

SendPlan PlanSend(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const SegmentBytes& old_bytes,
                  const SegmentBytes& new_bytes) {
  SendPlan plan;
  plan.unit_bytes = map.unit_bytes();
  plan.element_count = map.element_count();
  plan.strips.reserve(map.byte_count() / kStripBytes + map.parts().size());
  RunWalker runs(map, 0, map.element_count());
  for (Run run; runs.Next(&run);) {
    const TensorSpan span{run.segment_element, run.tensor_element * plan.unit_bytes, tensor_keys[run.tensor_index]};
    const uint64_t old_address = AddressOf(old_bytes.Of(run));
    const auto span_index = static_cast<uint32_t>(plan.spans.size());
    CutRun(run, old_address, AddressOf(new_bytes.Of(run)), plan.unit_bytes, span_index, &plan.strips);
    plan.spans.push_back(span);
    if ((old_address - span.tensor_byte) % kDigestBlockBytes != 0) plan.digest_blocks_aligned = false;
  }
  plan.spans.push_back({map.element_count(), 0, 0});
  return plan;
}

std::vector<SendTile> PlanSendTiles(std::span<const uint32_t> window_counts, uint64_t element_count, uint32_t unit_bytes) {
  std::vector<WindowSummary> windows(window_counts.size());
  for (size_t w = 0; w < windows.size(); ++w) windows[w].change_count = window_counts[w];
  std::vector<SendTile> tiles;
  uint64_t first_change = 0;
  bool in_run = false;
  for (const PlannedTile& planned : PlanTiles(windows, element_count, unit_bytes)) {
    const uint16_t flags = planned.dense ? kTileDense : in_run ? kTileFollows : 0;
    tiles.push_back({first_change, planned.change_count, flags, 0});
    first_change += planned.change_count;
    in_run = !planned.dense;
  }
  return tiles;
}

std::vector<SendTile> PlainTiles(uint64_t change_count) {
  std::vector<SendTile> tiles;
  for (uint64_t first = 0; first < change_count; first += kMaxTileChanges) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(change_count - first, kMaxTileChanges));
    const uint16_t flags = first > 0 ? kTileFollows : 0;
    tiles.push_back({first, count, flags, 0});
  }
  return tiles;
}

std::vector<SendTile> SplitTiles(std::span<const SendTile> tiles, std::span<const TileSurvey> surveys) {
  assert(tiles.size() == surveys.size());
  std::vector<SendTile> split;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const SendTile& tile = tiles[i];
    if (surveys[i].before != surveys[i].after || tile.change_count == 1) {
      split.push_back(tile);
      continue;
    }
    const uint32_t half = tile.change_count / 2;
    const auto earlier = static_cast<uint16_t>((tile.flags & kTileDense) != 0 ? tile.earlier_count + half : 0);
    split.push_back({tile.first_change, half, tile.flags, tile.earlier_count});
    split.push_back({tile.first_change + half, tile.change_count - half, tile.flags, earlier});
  }
  return split;
}

SendTable MakeSendTable(const Frequencies& frequencies) {
  SendTable table{};
  uint32_t cumulative = 0;
  for (size_t s = 0; s < frequencies.size(); ++s) {
    if (frequencies[s] > 0) table.entries[s] = MakeEntry(frequencies[s], cumulative);
    cumulative += frequencies[s];
  }
  return table;
}

SendTablesPlan PlanSendTables(const SegmentTables& tables, uint32_t unit_bytes) {
  SendTablesPlan plan;
  const auto add = [&](const SegmentTable& table) -> int8_t {
    if (table.kind != TableKind::kCoded) return kNoTable;
    if (std::find(table.frequencies.begin(), table.frequencies.end(), kFrequencySum) != table.frequencies.end()) {
      return kOneSymbol;
    }
    plan.tables.push_back(MakeSendTable(table.frequencies));
    return static_cast<int8_t>(plan.tables.size() - 1);
  };
  plan.set.has_sparse = tables.has_sparse() ? 1 : 0;
  plan.set.has_dense = tables.has_dense() ? 1 : 0;
  plan.set.gaps = add(tables.gaps);
  plan.set.planes.fill(kNoTable);
  plan.set.dense_planes.fill(kNoTable);
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) {
    plan.set.planes[plane] = add(tables.planes[plane]);
    plan.set.dense_planes[plane] = add(tables.dense_planes[plane]);
  }
  plan.set.table_count = static_cast<uint32_t>(plan.tables.size());
  return plan;
}

SegmentHistograms HistogramsOf(const SendHistograms& counted, uint32_t unit_bytes) {
  SegmentHistograms histograms;
  std::copy_n(counted.counts[0], kValueSymbols, histograms.gaps.begin());
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) {
    std::copy_n(counted.counts[1 + plane], kValueSymbols, histograms.planes[plane].begin());
    std::copy_n(counted.counts[1 + unit_bytes + plane], kValueSymbols, histograms.dense_planes[plane].begin());
  }
  return histograms;
}

}  // namespace xorbit::cuda
