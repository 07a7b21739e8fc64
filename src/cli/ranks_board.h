// What the processes of `xorbit bench --ranks` share beside the store: where they wait for each other, and what they measured.
// Plain numbers in memory that fork shares; each field has one writer, and is read once that process has come to a meeting or
// its end. Times are of CLOCK_MONOTONIC, which is one clock for all processes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "change/state_digest.h"
#include "transport/host_cache.h"

namespace xorbit {

inline constexpr uint32_t kMostRanks = 64;
inline constexpr uint32_t kMostVersions = 32;

// One rank's update to a version.
struct SamplerTimes {
  int64_t gate_closed_ns = 0;  // the engine was asked to stop
  int64_t gate_open_ns = 0;    // it serves again
  double fetch_s = 0;
  double prepare_s = 0;
  double gate_s = 0;  // until all had stopped
  double apply_s = 0;
  double outcome_s = 0;  // until all had applied
  uint64_t change_count = 0;
  uint64_t wrong_bytes = 0;  // afterwards, of all bytes that this rank holds
};

struct SamplerSlot {
  std::array<SamplerTimes, kMostVersions> times;
  // The same of the try that a killed rank spoilt; 0: this one never stopped.
  std::array<int64_t, kMostVersions> back_closed_ns;
  std::array<int64_t, kMostVersions> back_open_ns;
  std::array<uint64_t, kMostVersions> back_wrong_bytes;
  uint64_t resumes_at = 0;  // the version during whose update it was killed
  uint64_t byte_count = 0;  // live
  StateDigest state;        // of what it counts, scanned at the end
  HostCacheCounts fetched;  // by all of its lives
};

struct TrainerTimes {
  double encode_s = 0;    // diff and encode
  double copy_out_s = 0;  // from a device
  double store_s = 0;     // hash and store
};

struct TrainerSlot {
  std::array<TrainerTimes, kMostVersions> times;
  uint64_t byte_count = 0;
  StateDigest base;
};

// A rival's row, with a text that has to cross from its process.
struct RivalSlot {
  std::array<char, 48> name;
  std::array<char, 200> note;
  std::array<double, kMostVersions> times_ms;
  uint32_t run_count = 0;
  uint64_t byte_count = 0;
};

struct Board {
  std::atomic<uint32_t> stopped;  // somebody has failed: nobody waits any longer
  std::array<std::atomic<uint32_t>, 4 * kMostVersions> arrived;
  std::array<std::atomic<uint32_t>, kMostVersions> opened;  // ranks in the session that a kill is to spoil
  std::array<std::atomic<uint32_t>, kMostRanks> is_taken;   // devices, by who measures on them
  std::array<std::array<char, 400>, kMostRanks> errors;     // one line a process
  int32_t device_count = 0;
  std::array<SamplerSlot, kMostRanks> samplers;
  std::array<TrainerSlot, kMostRanks> trainers;
  std::array<RivalSlot, 4> rivals;
};

// Cuts `text` to fit.
void PutText(std::string_view text, char* to, size_t room);

// Waits until `count` processes have come to this meeting. An error if one of them fails meanwhile, or after minutes.
Status Meet(Board* board, uint32_t meeting, uint32_t count);

// A device, or the host, for one process at a time: who measures is not to share it. Holds nothing up if its holder dies, for
// then all are stopped.
class Turn {
 public:
  Turn(Board* board, uint32_t device);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

 private:
  std::atomic<uint32_t>* is_taken_;
};

}  // namespace xorbit
