// The order of work by which a device encodes a segment, and the decisions that the host takes between its stages.
//
// Mostly the host looks twice: at the counts, to make the tables, and at the totals, to take the bytes. It looks more often
// only where windows are dense or nearly empty, where a table does not pay, or where a digest does not tell old from new.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/send_plan.h"
#include "change/state_digest.h"
#include "codec/codec.h"

namespace xorbit::cuda {

// What a device does. Calls that read wait for all before them; the others may return at once.
class SendStages {
 public:
  SendStages() = default;
  SendStages(const SendStages&) = delete;
  SendStages& operator=(const SendStages&) = delete;
  virtual ~SendStages() = default;

  // Finds all changes, puts them in order and surveys PlainTiles.
  virtual Status FindChanges() = 0;
  virtual Status ReadCounts(SendCounters* counters, SendHistograms* histograms) = 0;
  virtual Status ReadWindowCounts(std::vector<uint32_t>* window_counts) = 0;
  // From here on these are the tiles.
  virtual Status SetTiles(std::span<const SendTile> tiles) = 0;
  virtual Status SurveyAgain() = 0;
  // Encodes and packs all tiles.
  virtual Status Encode(const SendTablesPlan& tables) = 0;
  virtual Status ReadTotals(SendCounters* counters) = 0;
  // Of all tiles, after the counts of their survey were read.
  virtual Status ReadSurveys(std::vector<TileSurvey>* surveys) = 0;
};

// How much a device has room for.
struct SendRoom {
  uint64_t change_count = 0;
  uint64_t stored_count = 0;
  uint64_t tile_count = 0;
  uint64_t body_bytes = 0;
};

// kUsage, with the numbers, if a device has found more changes than there is room for.
Status CheckRoom(const SendCounters& counters, const SendRoom& room);

// What stands ready on the device when a segment is encoded.
struct SentSegment {
  SegmentTables tables;
  uint64_t change_count = 0;
  uint64_t record_count = 0;
  uint64_t body_bytes = 0;
  StateDigest change;
  StateDigest base;  // of the old bytes, if the stages sum it
};

// kUsage, with the numbers, if there are more changes than `room` is for: nothing is lost, but the segment has to be encoded
// again with more.
Result<SentSegment> EncodeSegment(const SendPlan& plan, const SendRoom& room, SendStages* stages);

// As the payload writer takes it. Copies the body, in a piece a thread: mostly into pages that the process has never touched,
// of which one thread makes no more than 2 GB a second.
EncodedSegment ToEncodedSegment(const SentSegment& sent, uint32_t unit_bytes, ConstBytes records, ConstBytes body,
                                int threads = 1);

}  // namespace xorbit::cuda
