// The pieces of a tensor that has been cut and has its region: every part of its rows times every part of its columns.
#pragma once

#include "base/status.h"
#include "tensor/axis_plan.h"
#include "tensor/engine_cut.h"
#include "tensor/engine_regions.h"
#include "tensor/live_map.h"
#include "tensor/piece_class.h"

namespace xorbit {

class PieceEmitter {
 public:
  // Appends to the pieces and shadows of `spec`, which outlives it, as does the layout.
  PieceEmitter(const Layout& layout, LiveMapSpec* spec) : layout_(layout), spec_(spec) {}

  // kRefused if the tensor takes an order that no class can say.
  Status Emit(const EngineItem& item, const EngineRegion& region);
  // Once all are there: what the pieces' class indices count in.
  std::vector<PieceClass> TakeClasses() && { return std::move(classes_).Take(); }

 private:
  Status EmitBox(const EngineItem& item, const EngineRegion& region, AxisBox rows, const AxisBox& columns);
  void EmitCopies(const EngineItem& item, const EngineRegion& region, const Piece& of_first);

  const Layout& layout_;
  LiveMapSpec* spec_;
  ClassTable classes_;
};

}  // namespace xorbit
