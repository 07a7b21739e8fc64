// Undo memory on any bytes: what is accepted as a log must stay inside its places, which the sanitizers watch. A right seal is
// out of reach of a search, so the log is tried without one.
#include <cstring>
#include <vector>

#include "backend/cpu/undo_log.h"
#include "backend/undo_memory.h"

namespace xorbit {
namespace {

void TryLog(ConstBytes log) {
  Buffer small(64);
  Buffer large(1'000);
  const std::vector<MutableBytes> places = {small, {}, large};
  const auto views = ParseUndoLog(log, places);
  if (!views.ok()) return;
  for (const TouchView& view : *views) {
    view.HoldsOldOrNew();
    view.StoreNew();
    view.StoreOld();
  }
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint64_t> words(size / 8 + 1);  // undo memory is aligned
  if (size > 0) std::memcpy(words.data(), data, size);
  const xorbit::MutableBytes bytes(reinterpret_cast<uint8_t*>(words.data()), size);
  xorbit::TryLog(bytes);
  const auto memory = xorbit::UndoMemory::Open(bytes);
  if (!memory.ok() || !memory->record()) return 0;
  const auto log = memory->ProvenLog();
  if (log.ok()) xorbit::TryLog(*log);
  return 0;
}
