#include "tensor/live_planner.h"

#include "base/ascending.h"

namespace xorbit {

void LivePlan::Clear() {
  stretches.clear();
  casts.clear();
  granules.clear();
  has_copies = false;
}

void LivePlanner::SetTensor(uint32_t tensor_index) {
  tensor_index_ = tensor_index;
  const uint32_t source = map_->alias_of(tensor_index).value_or(tensor_index);
  written_ = source == tensor_index;
  granule_bits_ = map_->granule_bits(source);
  cursors_.clear();
  for (uint32_t track = 0; track < map_->track_count(source); ++track) cursors_.emplace_back(*map_, source, track);

  kept_place_ = kNoTensor;
  kept_counted_ = false;
  shadow_cursors_.clear();
  const std::optional<size_t> kept_index = map_->kept_index_of(source);
  if (!kept_index) return;
  kept_place_ = static_cast<uint32_t>(map_->regions().size() + *kept_index);
  for (const ShadowBinding& shadow : map_->shadows_of(source)) {
    shadow_cursors_.push_back({&shadow, LiveCursor(*map_, std::span(&shadow.piece, 1))});
  }
  // A copy that is kept only for a callback counts by itself.
  if (!shadow_cursors_.empty()) return;
  for (const DerivedBinding& derived : map_->derived_of(source)) kept_counted_ |= derived.counted;
}

LiveStretch LivePlanner::StretchOf(const LiveRun& run, const Changes& changes, uint32_t begin, uint32_t end,
                                   uint64_t live_unit_bytes) const {
  return {.tensor_index = tensor_index_,
          .place_index = run.region_index,
          .begin = begin,
          .end = end,
          .canonical_origin = changes.to_tensor * changes.unit_bytes,
          .live_origin = (run.live_granule - run.granule + changes.to_tensor) * live_unit_bytes,
          .counted = run.counted,
          .written = written_};
}

template <typename Take>
void LivePlanner::ForEachRun(LiveCursor* cursor, const Changes& changes, Take&& take) {
  const uint32_t* offsets = changes.offsets;
  for (uint32_t i = changes.begin; i < changes.end;) {
    const uint64_t granule = changes.to_tensor + offsets[i];
    const LiveRun& run = cursor->Find(granule);
    const uint32_t end = EndOfRun(offsets, i, changes.end, run.granule_count - (granule - run.granule));
    if (run.present()) take(run, i, end);
    i = end;
  }
}

void LivePlanner::AddGranules(LiveCursor* cursor, const Changes& changes, LivePlan* plan) const {
  const uint32_t per_unit = 8 * changes.unit_bytes / granule_bits_;
  for (uint32_t i = changes.begin; i < changes.end; ++i) {
    const uint64_t element = changes.to_tensor + changes.offsets[i];
    for (uint32_t k = 0; k < per_unit; ++k) {
      const uint64_t granule = element * per_unit + k;
      const LiveRun& run = cursor->Find(granule);
      if (!run.present()) continue;
      plan->granules.push_back({.tensor_index = tensor_index_,
                                .place_index = run.region_index,
                                .change = i,
                                .bits = static_cast<uint8_t>(granule_bits_),
                                .shift = static_cast<uint8_t>(k * granule_bits_),
                                .counted = run.counted,
                                .written = written_,
                                .canonical_byte = element * changes.unit_bytes,
                                .live_bit = run.LiveGranuleOf(granule) * granule_bits_});
    }
  }
}

void LivePlanner::Add(uint32_t tensor_index, uint32_t unit_bytes, uint64_t to_tensor, const uint32_t* offsets, uint32_t begin,
                      uint32_t end, LivePlan* plan) {
  if (tensor_index != tensor_index_) SetTensor(tensor_index);
  const Changes changes{unit_bytes, to_tensor, offsets, begin, end};
  const bool has_kept = kept_place_ != kNoTensor;
  plan->has_copies |= cursors_.size() + (has_kept ? 1 : 0) > 1;
  for (LiveCursor& cursor : cursors_) {
    if (granule_bits_ != 8 * unit_bytes) {
      AddGranules(&cursor, changes, plan);
      continue;
    }
    ForEachRun(&cursor, changes, [&](const LiveRun& run, uint32_t first, uint32_t last) {
      plan->stretches.push_back(StretchOf(run, changes, first, last, unit_bytes));
    });
  }
  if (!has_kept) return;
  const LiveRun whole{
      .granule = 0, .granule_count = UINT64_MAX, .live_granule = 0, .region_index = kept_place_, .counted = kept_counted_};
  plan->stretches.push_back(StretchOf(whole, changes, begin, end, unit_bytes));
  for (ShadowCursor& shadow : shadow_cursors_) {
    ForEachRun(&shadow.cursor, changes, [&](const LiveRun& run, uint32_t first, uint32_t last) {
      plan->casts.push_back({StretchOf(run, changes, first, last, LiveBitsOf(shadow.shadow->cast, 8 * unit_bytes) / 8),
                             kept_place_, shadow.shadow->cast});
    });
  }
}

}  // namespace xorbit
