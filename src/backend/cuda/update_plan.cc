#include "backend/cuda/update_plan.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/box_plan.h"
#include "base/checked_math.h"
#include "base/text.h"
#include "codec/change_digest.h"

namespace xorbit::cuda {
namespace {

SymbolTable MakeSymbolTable(const Frequencies& frequencies) {
  SymbolTable table{};
  uint32_t cumulative = 0;
  for (uint32_t symbol = 0; symbol < frequencies.size(); ++symbol) {
    const uint32_t frequency = frequencies[symbol];
    std::fill_n(table.symbols.begin() + cumulative, frequency, static_cast<uint8_t>(symbol));
    table.intervals[symbol] = frequency | cumulative << 16;
    cumulative += frequency;
  }
  return table;
}

void PlanTables(const SegmentTables& tables, uint32_t unit_bytes, SegmentPlan* plan) {
  const auto add = [&](const SegmentTable& table) -> int8_t {
    if (table.kind != TableKind::kCoded) return kRawPlane;
    plan->tables.push_back(MakeSymbolTable(table.frequencies));
    return static_cast<int8_t>(plan->tables.size() - 1);
  };
  plan->device.gap_table = add(tables.gaps);
  plan->device.planes.fill(kRawPlane);
  plan->device.dense_planes.fill(kRawPlane);
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) {
    plan->device.planes[plane] = add(tables.planes[plane]);
    plan->device.dense_planes[plane] = add(tables.dense_planes[plane]);
  }
  // A tile of one change has no gap, but its row is read all the same, so that no lane waits for a branch: from any table.
  if (plan->tables.empty()) plan->tables.push_back({});
  if (plan->device.gap_table == kRawPlane) plan->device.gap_table = 0;
  plan->device.table_count = static_cast<uint32_t>(plan->tables.size());
}

// Half bytes are written with the words that hold them.
Status CheckHalfBytes(const LiveMap& map, std::span<const RegionBounds> places) {
  for (const Piece& piece : map.pieces()) {
    if (map.class_of(piece).granule_bits >= 8) continue;
    const RegionBounds& region = places[piece.region_index];
    if (region.begin % 4 == 0 && region.end % 4 == 0) continue;
    return RefusedError("region " + Quoted(map.regions()[piece.region_index].name) +
                        " holds half bytes of tensors apart, so it must begin and end on a multiple of 4 bytes");
  }
  return {};
}

// Where a part's tensor is live. Nothing is there of an absent group.
void PlacePart(uint32_t tensor_index, uint32_t unit_bytes, bool is_absent, const UpdatePlan& update, LivePart* part) {
  const LiveMap& map = *update.map;
  const uint32_t source = map.alias_of(tensor_index).value_or(tensor_index);
  const TensorTracks tracks = is_absent ? TensorTracks{} : update.live.TracksOf(map, tensor_index);
  part->track_begin = tracks.begin;
  part->track_count = tracks.count;
  part->written_track_count = tracks.written_count;
  part->granule_bits = map.granule_bits(source);
  part->tie_index = is_absent || update.tie_of.empty() ? kNotTied : update.tie_of[tensor_index];
  if (!is_absent) {
    const std::span<const ShadowBinding> shadows = map.shadows_of(source);
    part->shadow_begin = static_cast<uint32_t>(shadows.data() - map.shadows().data());
    part->shadow_count = static_cast<uint32_t>(shadows.size());
  }
  bool all_count = true;
  if (tracks.count == 1) {
    const std::vector<uint32_t>& starts = update.live.track_starts;
    const auto pieces =
        std::span(update.live.pieces).subspan(starts[tracks.begin], starts[tracks.begin + 1] - starts[tracks.begin]);
    all_count = std::ranges::all_of(pieces, [](const Piece& piece) { return piece.counted; });
  }
  const bool is_plain =
      tracks.count <= 1 && tracks.written_count == tracks.count && part->granule_bits == 8 * unit_bytes && all_count;
  part->is_plain = is_plain ? 1 : 0;
}

// A segment's parts, and what of the map its tensors use.
void PlanParts(const SegmentMap& segment, std::span<const uint64_t> tensor_keys, UpdatePlan* update, SegmentPlan* plan) {
  SegmentOnDevice& device = plan->device;
  for (size_t i = 0; i < segment.parts().size(); ++i) {
    const Part& part = segment.parts()[i];
    LivePart live{};
    live.first = segment.part_start(i);
    live.origin = part.origin;
    live.tensor_key = tensor_keys[part.tensor_index];
    live.digit_begin = static_cast<uint32_t>(update->digits.size());
    live.digit_count = static_cast<uint32_t>(part.digits.size());
    if (live.digit_count > 1) update->digits.insert(update->digits.end(), part.digits.begin(), part.digits.end());
    PlacePart(part.tensor_index, segment.unit_bytes(), device.is_absent != 0, *update, &live);
    plan->parts.push_back(live);
  }
  LivePart sentinel{};
  sentinel.first = segment.element_count();
  plan->parts.push_back(sentinel);
  device.part_count = segment.parts().size();
}

// Where each tile begins: tiles and parts ascend, so one walk finds all.
void PlanStarts(const EncodedSegmentView& view, std::span<const LivePart> parts, std::vector<TileStart>* starts) {
  uint32_t part_index = 0;
  uint64_t first_change = 0;
  starts->reserve(view.record_count);
  for (uint64_t i = 0; i < view.record_count; ++i) {
    const auto record = LoadLe<TileRecord>(view.records.data() + i * sizeof(TileRecord));
    while (parts[part_index + 1].first <= record.first) ++part_index;
    starts->push_back({first_change, part_index, kNoBox, kNoBitmap});
    first_change += uint64_t{record.count_minus_1} + 1;
  }
}

Result<SegmentPlan> PlanSegment(const PayloadSegment& segment, TileSource source, std::span<const uint64_t> tensor_keys,
                                UpdatePlan* update) {
  SegmentPlan plan;
  plan.segment = &segment;
  if (source == TileSource::kSparse) {
    // The host's reader checks what can be checked without decoding: records ascend and stay inside segment and body.
    XORBIT_RETURN_IF_ERROR(FindCodec(CodecId::kSparse)->Open(segment.map, segment.view).status());
    XORBIT_ASSIGN_OR_RETURN(const SegmentTables tables, ParseTables(segment.view.tables, segment.map.unit_bytes()));
    PlanTables(tables, segment.map.unit_bytes(), &plan);
  }
  plan.device.is_absent = update->map->is_absent(segment.map.group()) ? 1 : 0;
  PlanParts(segment.map, tensor_keys, update, &plan);
  PlanStarts(segment.view, plan.parts, &plan.starts);
  plan.device.body_bytes = segment.view.body.size();
  plan.device.record_count = segment.view.record_count;
  plan.device.unit_bytes = segment.map.unit_bytes();
  plan.device.has_digests = segment.view.has_digests ? 1 : 0;
  return plan;
}

void PlanAllBoxes(UpdatePlan* update) {
  UpdateOnDevice tables{};
  tables.digits = update->digits.data();
  tables.track_starts = update->live.track_starts.data();
  tables.pieces = update->live.pieces.data();
  tables.classes = update->live.classes.data();
  tables.regions = update->live.regions.data();
  for (SegmentPlan& plan : update->segments) {
    SegmentOnDevice segment = plan.device;
    segment.parts = plan.parts.data();
    plan.boxes = PlanBoxes(tables, segment, plan.segment->view.records, &plan.starts);
  }
}

}  // namespace

Result<UpdatePlan> PlanUpdate(const Layout& layout, std::span<const PayloadView> payloads, const LiveMap& map,
                              std::span<const RegionBounds> places, TileSource source) {
  XORBIT_RETURN_IF_ERROR(CheckHalfBytes(map, places));
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  UpdatePlan update;
  update.layout = &layout;
  update.map = &map;
  update.live = MakeLiveTables(layout, map, places);
  PlanTies(layout, &update);
  for (size_t p = 0; p < payloads.size(); ++p) {
    for (const PayloadSegment& segment : payloads[p].segments) {
      if (segment.view.record_count == 0) continue;
      XORBIT_ASSIGN_OR_RETURN(SegmentPlan plan, PlanSegment(segment, source, tensor_keys, &update));
      plan.payload_index = static_cast<uint32_t>(p);
      plan.device.payload_index = plan.payload_index;
      plan.device.first_tile = update.tile_count;
      plan.device.first_item = update.item_count;
      update.tile_count += plan.device.record_count;
      update.item_count += DivideRoundUp(plan.device.record_count, uint64_t{kWarpsPerBlock});
      update.change_count += segment.view.change_count;
      update.table_bytes = std::max(update.table_bytes, plan.device.table_count * static_cast<uint32_t>(sizeof(SymbolTable)));
      PlanBoundTiles(plan, &update);
      update.segments.push_back(std::move(plan));
    }
  }
  PlanAllBoxes(&update);
  return update;
}

ItemRange ItemsOf(const UpdatePlan& plan, uint64_t begin, uint64_t end) {
  assert(begin < end && end <= plan.item_count);
  const auto after = std::upper_bound(plan.segments.begin(), plan.segments.end(), begin,
                                      [](uint64_t item, const SegmentPlan& s) { return item < s.device.first_item; });
  return {begin, end, static_cast<uint64_t>(after - plan.segments.begin()) - 1};
}

}  // namespace xorbit::cuda
