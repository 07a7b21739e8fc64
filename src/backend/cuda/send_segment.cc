#include "backend/cuda/send_segment.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "base/checked_math.h"
#include "base/parallel.h"

namespace xorbit::cuda {

Status CheckRoom(const SendCounters& counters, const SendRoom& room) {
  if (counters.change_count <= room.change_count && counters.stored_count <= room.stored_count) return {};
  return UsageError("the sender has room for " + std::to_string(room.change_count) + " changes of a segment that has " +
                    std::to_string(counters.change_count) + ": make it for more, or send a full checkpoint");
}

namespace {

class SegmentEncoder {
 public:
  SegmentEncoder(const SendPlan& plan, const SendRoom& room, SendStages* stages)
      : plan_(&plan), room_(&room), stages_(stages) {}

  Result<SentSegment> Run() {
    XORBIT_RETURN_IF_ERROR(stages_->FindChanges());
    SendHistograms histograms{};
    XORBIT_RETURN_IF_ERROR(stages_->ReadCounts(&counters_, &histograms));
    XORBIT_RETURN_IF_ERROR(CheckRoom(counters_, *room_));
    SentSegment sent;
    sent.change_count = counters_.change_count;
    sent.base = counters_.base;
    if (sent.change_count == 0) return sent;
    tile_count_ = DivideRoundUp(sent.change_count, uint64_t{kMaxTileChanges});
    if (counters_.has_dense_window != 0 || counters_.has_long_tile != 0) {
      std::vector<uint32_t> window_counts;
      XORBIT_RETURN_IF_ERROR(stages_->ReadWindowCounts(&window_counts));
      XORBIT_RETURN_IF_ERROR(SetTiles(PlanSendTiles(window_counts, plan_->element_count, plan_->unit_bytes)));
      XORBIT_RETURN_IF_ERROR(stages_->SurveyAgain());
      XORBIT_RETURN_IF_ERROR(stages_->ReadCounts(&counters_, &histograms));
    }
    XORBIT_RETURN_IF_ERROR(HalveTiles());
    sent.tables = MakeTables(HistogramsOf(histograms, plan_->unit_bytes), plan_->unit_bytes);
    XORBIT_RETURN_IF_ERROR(EncodeTiles(&sent.tables));
    sent.record_count = tile_count_;
    sent.body_bytes = counters_.body_bytes;
    sent.change = {counters_.lane0_change, counters_.lane1_change};
    return sent;
  }

 private:
  Status SetTiles(std::vector<SendTile> tiles) {
    if (tiles.size() > room_->tile_count) {
      return UsageError("the sender has room for " + std::to_string(room_->tile_count) + " tiles of a segment that has " +
                        std::to_string(tiles.size()) + ": make it for more changes");
    }
    tiles_ = std::move(tiles);
    tile_count_ = tiles_.size();
    return stages_->SetTiles(tiles_);
  }

  // While there are tiles whose digest does not tell old from new. The symbols remain those of whole tiles.
  Status HalveTiles() {
    while (counters_.unsplit_count > 0) {
      if (tiles_.empty()) tiles_ = PlainTiles(counters_.change_count);
      std::vector<TileSurvey> surveys;
      XORBIT_RETURN_IF_ERROR(stages_->ReadSurveys(&surveys));
      XORBIT_RETURN_IF_ERROR(SetTiles(SplitTiles(tiles_, surveys)));
      XORBIT_RETURN_IF_ERROR(stages_->SurveyAgain());
      SendHistograms ignored{};
      XORBIT_RETURN_IF_ERROR(stages_->ReadCounts(&counters_, &ignored));
    }
    return {};
  }

  // Again without tables that do not pay.
  Status EncodeTiles(SegmentTables* tables) {
    for (;;) {
      XORBIT_RETURN_IF_ERROR(stages_->Encode(PlanSendTables(*tables, plan_->unit_bytes)));
      XORBIT_RETURN_IF_ERROR(stages_->ReadTotals(&counters_));
      const TableSavings savings{counters_.sparse_count, counters_.sparse_saved_bytes, counters_.dense_count,
                                 counters_.dense_saved_bytes};
      const SegmentTables kept = WorthKeeping(*tables, savings, plan_->unit_bytes);
      const bool again = MustEncodeAgain(kept, savings);
      *tables = kept;
      if (!again) break;
    }
    if (counters_.body_bytes <= room_->body_bytes) return {};
    return UsageError("the sender has room for a body of " + std::to_string(room_->body_bytes) + " bytes, not " +
                      std::to_string(counters_.body_bytes) + ": make it for more changes");
  }

  const SendPlan* plan_;
  const SendRoom* room_;
  SendStages* stages_;
  SendCounters counters_{};
  std::vector<SendTile> tiles_;  // empty: plain ones
  uint64_t tile_count_ = 0;
};

}  // namespace

Result<SentSegment> EncodeSegment(const SendPlan& plan, const SendRoom& room, SendStages* stages) {
  return SegmentEncoder(plan, room, stages).Run();
}

EncodedSegment ToEncodedSegment(const SentSegment& sent, uint32_t unit_bytes, ConstBytes records, ConstBytes body,
                                int threads) {
  EncodedSegment segment;
  segment.has_digests = true;
  segment.change_count = sent.change_count;
  segment.record_count = sent.record_count;
  segment.change = sent.change;
  segment.tables = SerializeTables(sent.tables, unit_bytes);
  segment.records.assign(records.begin(), records.end());
  for (uint64_t i = 1; i < sent.record_count; ++i) {
    segment.cuts.push_back(LoadLe<TileRecord>(records.data() + i * sizeof(TileRecord)).offset);
  }
  if (body.empty()) return segment;
  segment.cuts.push_back(body.size());
  constexpr uint64_t kLeastPieceBytes = uint64_t{1} << 20;
  const uint64_t piece_bytes = std::max(DivideRoundUp(body.size(), static_cast<uint64_t>(threads)), kLeastPieceBytes);
  segment.body.resize(DivideRoundUp(body.size(), piece_bytes));
  const Status copied = ParallelFor(threads, segment.body.size(), [&](uint64_t i) -> Status {
    const ConstBytes piece = body.subspan(i * piece_bytes, std::min(piece_bytes, body.size() - i * piece_bytes));
    segment.body[i].assign(piece.begin(), piece.end());
    return {};
  });
  assert(copied.ok());
  static_cast<void>(copied);
  return segment;
}

}  // namespace xorbit::cuda
