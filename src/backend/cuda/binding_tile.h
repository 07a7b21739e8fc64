// What one warp does with a tile that touches shadows or tied names, beside what it does with every tile.
//
// A shadow's image is brought after its kept copy change by change, so that this costs as little as the change itself and
// notices where somebody else wrote; neighbouring changes are stored by neighbouring lanes. What a tied name changes is summed
// by position, and compared with the other's by the host.
#pragma once

#include "backend/cuda/tile_tasks.h"
#include "tensor/live_cast.h"

namespace xorbit::cuda {

XORBIT_DEVICE uint64_t LoadImage(uint64_t address, uint32_t image_bytes) {
  switch (image_bytes) {
    case 1:
      return LoadElement<uint8_t>(address);
    case 2:
      return LoadElement<uint16_t>(address);
    case 4:
      return LoadElement<uint32_t>(address);
    default:
      return LoadElement<uint64_t>(address);
  }
}

XORBIT_DEVICE void StoreImage(uint64_t address, uint32_t image_bytes, uint64_t bits) {
  switch (image_bytes) {
    case 1:
      return StoreElement(address, static_cast<uint8_t>(bits));
    case 2:
      return StoreElement(address, static_cast<uint16_t>(bits));
    case 4:
      return StoreElement(address, static_cast<uint32_t>(bits));
    default:
      return StoreElement(address, bits);
  }
}

// One element of one shadow; `log` holds its old value in steps that need it. False if the image was neither what it should
// have been nor, by an absolute store, what it becomes: it is left as it is.
template <typename Unit>
XORBIT_DEVICE_RARE bool CastElement(const PieceClass* classes, const ShadowOnDevice* shadow, BindingStep step,
                                    uint64_t tensor_element, Unit bits, const Unit* log) {
  const GranuleRun run = RunInPiece(classes[shadow->piece.class_index], shadow->piece, tensor_element, ~uint64_t{0});
  if (!run.present) return true;
  const uint64_t address = shadow->image_address + (run.live + (tensor_element - run.first)) * shadow->image_bytes;
  const uint64_t met = LoadImage(address, shadow->image_bytes);
  const bool is_absolute = step == BindingStep::kStore || step == BindingStep::kRestore;
  const Unit known = is_absolute ? *log : LoadElement<Unit>(shadow->kept_address + tensor_element * sizeof(Unit));
  const uint64_t here = CastBits(shadow->cast, known);
  if (step == BindingStep::kCheck) return met == here;
  const uint64_t there = CastBits(shadow->cast, static_cast<Unit>(known ^ bits));
  if (is_absolute && here == there) return true;
  // kRestore goes from there to here as kFollowXor does, whose kept copy is new already.
  const uint64_t from = step == BindingStep::kStore ? here : there;
  const uint64_t to = step == BindingStep::kStore ? there : here;
  if (met == from) StoreImage(address, shadow->image_bytes, to);
  return met == from || (is_absolute && met == to);
}

template <typename Unit>
class BindingVisitor {
 public:
  XORBIT_DEVICE BindingVisitor(const TileContext& tile, const BindingsOnDevice& bindings, BindingStep step)
      : tile_(tile), bindings_(bindings), step_(step), hint_{tile.start.part_index, 0} {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, uint32_t /*last*/, Unit bits) {
    if (!active) return;
    const uint64_t element = tile_.record.first + offset;
    const LivePart& part = FindPart(*tile_.segment, element, &hint_);
    const bool is_check = step_ == BindingStep::kCheck;
    const bool casts = part.shadow_count > 0 && (is_check || part.written_track_count > 0);
    const bool is_tied = is_check && part.tie_index != kNotTied;
    if (!casts && !is_tied) return;
    const TensorRun run = RunInPart(*tile_.update, part, (&part)[1].first, element);
    const uint64_t tensor_element = run.origin + (element - run.first);
    if (is_tied) AddTied(part.tie_index, tensor_element, bits);
    if (!casts) return;
    const Unit* log = is_check || step_ == BindingStep::kFollowXor ? nullptr : LoggedValue<Unit>(tile_, change_index);
    for (uint32_t i = 0; i < part.shadow_count; ++i) {
      const ShadowOnDevice* shadow = bindings_.shadows + part.shadow_begin + i;
      misfits_ |= !CastElement<Unit>(tile_.update->classes, shadow, step_, tensor_element, bits, log);
    }
  }

  // Whether any image misfitted, in every lane. All lanes together, once.
  XORBIT_DEVICE bool Finish() {
    if (step_ == BindingStep::kCheck) {
      const uint32_t tie_index = ShuffleFrom(tie_index_, 0);
      if (AnyLane(tie_index_ != tie_index)) {
        Settle();
      } else if (tie_index != kNotTied) {
        sum_ = {WarpSum(sum_.lane0), WarpSum(sum_.lane1)};
        if (Lane() == 0) Settle();
      }
    }
    return AnyLane(misfits_);
  }

 private:
  XORBIT_DEVICE void AddTied(uint32_t tie_index, uint64_t tensor_element, Unit bits) {
    if (tie_index != tie_index_) Settle();
    tie_index_ = tie_index;
    const ElementWeight<Unit> weight(bindings_.ties[tie_index].key, tensor_element * sizeof(Unit), tile_.word_factors);
    sum_.lane0 += weight.Lane0(bits);
    sum_.lane1 += weight.Lane1(bits);
  }
  // This lane's sum goes to its tie.
  XORBIT_DEVICE void Settle() {
    if (tie_index_ == kNotTied) return;
    StateDigest& sum = bindings_.ties[tie_index_].sum;
    AtomicAdd(&sum.lane0, sum_.lane0);
    AtomicAdd(&sum.lane1, sum_.lane1);
    sum_.lane0 = 0;
    sum_.lane1 = 0;
  }

  TileContext tile_;
  BindingsOnDevice bindings_;
  BindingStep step_;
  PlaceHint hint_;
  uint32_t tie_index_ = kNotTied;
  StateDigest sum_{};
  bool misfits_ = false;
};

template <typename Unit>
XORBIT_DEVICE void BindTile(const TileTask& task, const BindingsOnDevice& bindings, BindingStep step) {
  BindingVisitor<Unit> visitor(task.context, bindings, step);
  const TileError error = IsSparse(task.view.record)
                              ? DecodeSparseTile<false>(task.view, TablesOf<Unit>(task.view, task.segment->planes), &visitor)
                              : DecodeOtherTile<Unit>(task.view, &visitor);
  const bool misfits = visitor.Finish();
  if (Lane() != 0 || (error == TileError::kNone && !misfits)) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  if (error != TileError::kNone) return ReportTile(&counters.first_corrupt, task.tile_index, error);
  ReportTile(&counters.first_refused, task.tile_index, step == BindingStep::kCheck ? TileError::kReplica : TileError::kDigest);
}

}  // namespace xorbit::cuda
