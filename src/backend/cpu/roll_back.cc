#include "backend/cpu/roll_back.h"

#include <vector>

#include "backend/cpu/undo_log.h"
#include "base/parallel.h"

namespace xorbit {

Status RollBackLive(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads) {
  if (!undo->record() || undo->record()->state != UndoState::kArmed) return {};
  XORBIT_RETURN_IF_ERROR(CheckMemory(layout, live));
  XORBIT_RETURN_IF_ERROR(CheckUndoRecord(*undo->record(), live));
  XORBIT_ASSIGN_OR_RETURN(const Buffer log, undo->ProvenLog());
  const std::vector<MutableBytes> places = PlaceBytesOf(live);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<TouchView> views, ParseUndoLog(log, places));
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, views.size(), [&](uint64_t index) {
    if (views[index].HoldsOldOrNew()) return Status();
    return RefusedError(
        "an update was cut off, and somebody else has written to what it changes: load a checkpoint and set undo "
        "memory to zero");
  }));
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, views.size(), [&](uint64_t index) {
    views[index].StoreOld();
    return Status();
  }));
  undo->SetState(UndoState::kWaiting);
  return {};
}

}  // namespace xorbit
