// What a machine can do at best with the bytes and the changes of a workload, measured in the same run as the codecs: a speed
// means little without it.
#pragma once

#include "cli/bench_workload.h"
#include "journey/journey.h"

namespace xorbit {

// Seconds, medians of the rounds.
struct Yardsticks {
  double read_s = 0;     // read old and new once
  double copy_s = 0;     // memcpy of one state
  double scatter_s = 0;  // XOR of ready values at ready positions, one thread's loop on each thread's share
};

// `live` holds the old state's bytes at the start and the same or the new state's at the end.
Yardsticks MeasureYardsticks(const Runtime& runtime, const Workload& workload, int rounds, Buffer* live);

}  // namespace xorbit
