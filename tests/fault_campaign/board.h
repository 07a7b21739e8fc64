// What the processes of a fault campaign share: memory that fork leaves in common, and that no fault touches. Through it the
// campaign tells a process which fault to meet, and a process tells what it has served and seen.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace xorbit::fault_campaign {

// The processes of a world. A rival trainer and a collector come and go.
enum Actor : uint32_t { kTrainer0, kTrainer1, kRival, kLone, kPair0, kPair1, kCollector, kActorCount };
inline constexpr std::array<std::string_view, kActorCount> kActorNames = {
    "trainer rank 0", "trainer rank 1", "rival trainer", "lone sampler", "pair rank 0", "pair rank 1", "collector"};
inline bool IsSampler(uint32_t actor) { return actor == kLone || actor == kPair0 || actor == kPair1; }

// What an actor's stores may do to its next calls.
enum class StoreFault : uint32_t { kNone, kReadFails, kReadFlips, kReadCut, kWriteFails, kReplyLost, kWrittenLate };

inline constexpr uint64_t kMaxVersions = 200;  // of a world

struct Seat {
  std::atomic<StoreFault> fault;
  std::atomic<uint64_t> fault_calls;        // how many calls it is for
  std::atomic<int64_t> disk_full_until_ns;  // steady clock
  std::atomic<int64_t> clock_jump_ns;       // of what NowNs says
  std::atomic<int64_t> step_began_ns;       // steady clock; 0: between two steps
  std::atomic<uint64_t> serves;             // version + 1; 0: stands still, or dead
  std::array<char, 240> last_error;         // for people
};

struct Board {
  std::array<Seat, kActorCount> seats;
  // What the first process that saw a version's decision saw: a hash of the record, never 0.
  std::array<std::atomic<uint64_t>, kMaxVersions> decisions;
  std::atomic<uint64_t> serve_count;
  std::atomic<uint64_t> wrong_bytes_count;   // an engine was made to serve what is not its version
  std::atomic<uint64_t> disagreement_count;  // the two ranks of the pair served different versions
  std::atomic<uint64_t> changed_count;       // a decision was seen that is not the one seen before
  std::atomic<uint64_t> late_writer_count;   // on their way
};

}  // namespace xorbit::fault_campaign
