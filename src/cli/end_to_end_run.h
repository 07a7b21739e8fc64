// One run of `xorbit bench --end-to-end`, as its four processes know it: a trainer with a store of its own, the two ends of a
// link, and a sampler with the store that the link fills. docs/design/end-to-end.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "cli/end_to_end_marks.h"
#include "cli/ranks_board.h"
#include "cli/ranks_model.h"
#include "codec/codec.h"
#include "transport/shaped_link.h"

namespace xorbit {

struct EndToEndRun {
  RanksModel model;
  uint32_t owner_count = 1;  // trainers' parts of the share, of which the last is encoded in time
  CodecId codec = CodecId::kSparse;
  bool on_device = false;
  uint32_t round_count = 5;  // versions 1 to round_count
  bool serving = false;      // prepares beside an engine that decodes, or so it is told
  std::string decoder;       // MaskOptions
  bool keeps_state = false;  // from one update to the next
  bool validates_payload_hash = true;
  bool wants_spans = false;  // of the device's streams in the pause
  const ShapedLink* link = nullptr;
  fs::path near_store;
  fs::path far_store;
  fs::path marks;  // a folder for what the processes measured
  Board* board = nullptr;

  int device() const { return on_device ? 0 : -1; }
  static bool IsChanged(uint64_t version) { return version % 2 == 1; }
};

inline constexpr std::string_view kEndToEndStream = "end-to-end";

// Where the trainer and the sampler meet: at the end, and before a version is made.
inline constexpr uint32_t kEndMeeting = 0;
inline uint32_t MeetingBefore(uint64_t version) { return static_cast<uint32_t>(version); }

// About `byte_count` bytes of one dtype in matrices, each cut by rows into `owner_count` trainers' parts. `workload`: as
// FindWorkload names them, without fp4.
Result<RanksModel> MakeEndToEndModel(uint64_t byte_count, const std::string& workload, uint32_t owner_count);
Result<std::vector<RankPlan>> PlanTrainers(const RanksModel& model, uint32_t owner_count);

// The bodies of the processes. Each writes its marks into run.marks. An error is one line.
Status RunEndToEndTrainer(const EndToEndRun& run);
Status RunEndToEndSampler(const EndToEndRun& run);
Status RunNearEnd(const EndToEndRun& run);
Status RunFarEnd(const EndToEndRun& run);

}  // namespace xorbit
