#include "backend/cuda/binding_plan.h"

#include <algorithm>
#include <ranges>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit::cuda {
namespace {

TileRecord RecordAt(const EncodedSegmentView& view, uint64_t index) {
  return LoadLe<TileRecord>(view.records.data() + index * sizeof(TileRecord));
}

// Parts ascend, and a tile may reach over several.
void AddTiles(uint64_t segment_index, const RecordRange& records, std::vector<TileRange>* tiles) {
  const bool goes_on = !tiles->empty() && tiles->back().segment_index == segment_index;
  const uint64_t begin = goes_on ? std::max(records.begin, tiles->back().end) : records.begin;
  if (begin >= records.end) return;
  if (goes_on && tiles->back().end == begin) {
    tiles->back().end = records.end;
  } else {
    tiles->push_back({segment_index, begin, records.end});
  }
}

}  // namespace

RecordRange RecordsIn(const EncodedSegmentView& view, uint64_t begin, uint64_t end) {
  const auto indices = std::views::iota(uint64_t{0}, view.record_count);
  const auto first = std::ranges::partition_point(indices, [&](uint64_t i) {
    const TileRecord record = RecordAt(view, i);
    return record.first + record.span < begin;
  });
  const auto last = std::ranges::partition_point(indices, [&](uint64_t i) { return RecordAt(view, i).first < end; });
  return {static_cast<uint64_t>(first - indices.begin()), static_cast<uint64_t>(last - indices.begin())};
}

void PlanTies(const Layout& layout, UpdatePlan* update) {
  const auto aliases = update->map->aliases();
  if (aliases.empty()) return;
  update->tie_of.assign(layout.tensors().size(), kNotTied);
  const auto tie = [&](uint32_t tensor_index, uint64_t key) {
    uint32_t& index = update->tie_of[tensor_index];
    if (index != kNotTied) return;
    index = static_cast<uint32_t>(update->ties.size());
    update->ties.push_back({key, {}});
  };
  for (const AliasBinding& alias : aliases) {
    const uint64_t key = TensorKeyOf(layout.tensors()[alias.of_tensor_index].name);
    tie(alias.tensor_index, key);
    tie(alias.of_tensor_index, key);
  }
}

void PlanBoundTiles(const SegmentPlan& segment, UpdatePlan* update) {
  const uint64_t segment_index = update->segments.size();
  for (size_t i = 0; i + 1 < segment.parts.size(); ++i) {
    const LivePart& part = segment.parts[i];
    if (part.shadow_count == 0 && part.tie_index == kNotTied) continue;
    const RecordRange records = RecordsIn(segment.segment->view, part.first, segment.parts[i + 1].first);
    AddTiles(segment_index, records, &update->checked_tiles);
    if (part.shadow_count > 0 && part.written_track_count > 0) AddTiles(segment_index, records, &update->cast_tiles);
  }
}

std::vector<SegmentOnDevice> CutToTiles(const UpdatePlan& plan, std::span<const SegmentOnDevice> segments,
                                        std::span<const TileRange> tiles) {
  std::vector<SegmentOnDevice> cut;
  uint64_t item_count = 0;
  for (const TileRange& range : tiles) {
    SegmentOnDevice segment = segments[range.segment_index];
    if (range.end < segment.record_count) {
      segment.body_bytes = RecordAt(plan.segments[range.segment_index].segment->view, range.end).offset;
    }
    segment.records += range.begin;
    segment.record_count = range.end - range.begin;
    segment.first_tile += range.begin;
    segment.first_item = item_count;
    item_count += DivideRoundUp(segment.record_count, uint64_t{kWarpsPerBlock});
    cut.push_back(segment);
  }
  SegmentOnDevice sentinel{};
  sentinel.first_item = item_count;
  cut.push_back(sentinel);
  return cut;
}

Status StatusOfTies(const UpdatePlan& plan, std::span<const TieOnDevice> ties) {
  for (const AliasBinding& alias : plan.map->aliases()) {
    if (ties[plan.tie_of[alias.tensor_index]].sum == ties[plan.tie_of[alias.of_tensor_index]].sum) continue;
    const auto& tensors = plan.layout->tensors();
    return RefusedError("tensors " + Quoted(tensors[alias.tensor_index].name) + " and " +
                        Quoted(tensors[alias.of_tensor_index].name) +
                        " share their weights, but this delta changes them differently: bind them apart");
  }
  return {};
}

}  // namespace xorbit::cuda
