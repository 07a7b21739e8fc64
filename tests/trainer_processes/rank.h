// One trainer rank as a process: from the served checkpoint, or the trainer's own, through the stream to its last version.
#pragma once

#include <array>
#include <atomic>

#include "base/file.h"
#include "trainer_processes/model.h"

namespace xorbit::trainer_processes {

inline constexpr uint32_t kMaxRanks = 4;
inline constexpr uint64_t kSaveEvery = 5;  // versions

// Shared between the processes.
struct Board {
  std::array<std::atomic<int64_t>, kMaxRanks> calls_left;  // of changes on the disk, until a rank kills itself; 0: it does not
  std::atomic<uint64_t> last_version;                      // after which ranks end
};

// What all ranks of a life know when it begins.
struct Life {
  uint64_t number = 0;
  uint32_t rank_count = 2;
  uint64_t begins_at = 0;  // the version that it goes on from
  fs::path checkpoint{};   // of that version; none: the served one
};

struct Place {
  fs::path store;
  fs::path checkpoints;  // the trainer's own; a folder for each version saved
  Board* board = nullptr;
};

// Publishes version after version until board->last_version.
Status LiveAsRank(const Place& place, Model& model, const Life& life, uint32_t rank);

}  // namespace xorbit::trainer_processes
