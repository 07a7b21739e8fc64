// Folds beside the steps: what lets a receiver that fell behind catch up with a few objects instead of every step.
#pragma once

#include <cstdint>
#include <span>

#include "publish/decide.h"
#include "publish/rank_publisher.h"

namespace xorbit {

// Writes the folds that end in the publishers' version (store/fold_schedule.h says which; `marks` are versions that get one of
// their own, 0 the base). `publishers` are this process's ranks, at least one. Every process of the trainer calls it after
// Settle(), with the same marks; each rank folds its own share, any of them seals. Returns how many folds were written once all
// of them are sealed. Nothing that readers rely on changes: a crash or an error in between costs a later reader bytes, and the
// next call may make up for it.
Result<size_t> PublishFolds(Stream& stream, std::span<RankPublisher> publishers, std::span<const uint64_t> marks,
                            const DecideOptions& options);

// One delta from committed version `from` to the publishers' version, for what needs a single one: as it is in the store, or
// written as a fold. Every process of the trainer calls it with the same `from`, as above. kUsage unless `from` is the older.
Result<Edge> PublishFoldFrom(Stream& stream, std::span<RankPublisher> publishers, uint64_t from, const DecideOptions& options);

}  // namespace xorbit
