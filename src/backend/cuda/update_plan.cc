#include "backend/cuda/update_plan.h"

#include <algorithm>
#include <string>

#include "base/checked_math.h"
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
  plan->device.table_count = static_cast<uint32_t>(plan->tables.size());
}

bool IsRagged(uint64_t begin, uint64_t end, const RegionBounds& region) {
  return begin / 4 * 4 < region.begin || DivideRoundUp(end, 4) * 4 > region.end;
}

// A segment over tensors that live memory holds whole: one span a run.
void PlanSpans(const SegmentMap& map, std::span<const uint64_t> tensor_keys, std::span<const RegionBounds> regions,
               std::vector<LiveSpan>* spans) {
  const uint64_t unit_bytes = map.unit_bytes();
  RunWalker runs(map, 0, map.element_count());
  for (Run run; runs.Next(&run);) {
    const RegionBounds& region = regions[run.tensor_index];
    const uint64_t tensor_byte = run.tensor_element * unit_bytes;
    const uint64_t begin = region.begin + tensor_byte;
    const bool ragged = IsRagged(begin, begin + run.element_count * unit_bytes, region);
    spans->push_back(
        {run.segment_element, begin, tensor_byte, tensor_keys[run.tensor_index], ragged ? run.tensor_index : kNotRagged});
  }
  spans->push_back({map.element_count(), 0, 0, 0, kNotRagged});
}

// Where each tile begins: tiles and spans ascend, so one walk finds all.
void PlanStarts(const EncodedSegmentView& view, std::span<const LiveSpan> spans, std::vector<TileStart>* starts) {
  uint64_t span_index = 0;
  uint64_t first_change = 0;
  starts->reserve(view.record_count);
  for (uint64_t i = 0; i < view.record_count; ++i) {
    const auto record = LoadLe<TileRecord>(view.records.data() + i * sizeof(TileRecord));
    while (spans[span_index + 1].first <= record.first) ++span_index;
    starts->push_back({first_change, span_index});
    first_change += uint64_t{record.count_minus_1} + 1;
  }
}

Result<SegmentPlan> PlanSegment(const PayloadSegment& segment, std::span<const uint64_t> tensor_keys,
                                std::span<const RegionBounds> regions) {
  // The host's reader checks what can be checked without decoding: records ascend and stay inside segment and body.
  XORBIT_RETURN_IF_ERROR(FindCodec(CodecId::kSparse)->Open(segment.map, segment.view).status());
  SegmentPlan plan;
  plan.segment = &segment;
  XORBIT_ASSIGN_OR_RETURN(const SegmentTables tables, ParseTables(segment.view.tables, segment.map.unit_bytes()));
  PlanTables(tables, segment.map.unit_bytes(), &plan);
  PlanSpans(segment.map, tensor_keys, regions, &plan.spans);
  PlanStarts(segment.view, plan.spans, &plan.starts);
  plan.device.body_bytes = segment.view.body.size();
  plan.device.record_count = segment.view.record_count;
  plan.device.unit_bytes = segment.map.unit_bytes();
  plan.device.has_digests = segment.view.has_digests ? 1 : 0;
  plan.device.span_count = plan.spans.size() - 1;
  return plan;
}

}  // namespace

Result<UpdatePlan> PlanUpdate(const Layout& layout, std::span<const PayloadView> payloads,
                              std::span<const RegionBounds> tensor_regions) {
  assert(tensor_regions.size() == layout.tensors().size());
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  UpdatePlan update;
  update.regions.assign(tensor_regions.begin(), tensor_regions.end());
  for (size_t p = 0; p < payloads.size(); ++p) {
    if (payloads[p].info.codec != CodecId::kSparse) {
      return UnsupportedError("the CUDA backend does not read payloads of a mask codec yet: apply them with the CPU backend");
    }
    for (const PayloadSegment& segment : payloads[p].segments) {
      if (segment.view.record_count == 0) continue;
      XORBIT_ASSIGN_OR_RETURN(SegmentPlan plan, PlanSegment(segment, tensor_keys, tensor_regions));
      plan.payload_index = static_cast<uint32_t>(p);
      plan.device.payload_index = plan.payload_index;
      plan.device.first_tile = update.tile_count;
      plan.device.first_item = update.item_count;
      update.tile_count += plan.device.record_count;
      update.item_count += DivideRoundUp(plan.device.record_count, uint64_t{kWarpsPerBlock});
      update.change_count += segment.view.change_count;
      update.table_bytes = std::max(update.table_bytes, plan.device.table_count * static_cast<uint32_t>(sizeof(SymbolTable)));
      update.segments.push_back(std::move(plan));
    }
  }
  return update;
}

}  // namespace xorbit::cuda
