// What a sender's kernels need to know of a segment before it has any changes: pure planning, made once for a layout and the
// places of its old and new bytes, and used for every update.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/send_on_device.h"
#include "codec/sparse_plan.h"
#include "codec/sparse_table_set.h"
#include "tensor/segment_bytes.h"

namespace xorbit::cuda {

struct SendPlan {
  uint32_t unit_bytes = 0;
  uint64_t element_count = 0;
  std::vector<Strip> strips;      // ascending, without holes
  std::vector<TensorSpan> spans;  // with the sentinel
  // Whether the state digest's blocks of old bytes are aligned in memory, so that the diff can sum it as it passes.
  bool digest_blocks_aligned = true;
  uint64_t group_count() const { return DivideRoundUp(strips.size(), uint64_t{kStripsPerGroup}); }
  uint64_t window_count() const { return WindowCountOf(element_count); }
};

// Old and new bytes are views of device memory, or of pinned host memory, which every device reads at the same address; they
// are never read here. tensor_keys[i] = TensorKeyOf(name of layout tensor i).
SendPlan PlanSend(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const SegmentBytes& old_bytes,
                  const SegmentBytes& new_bytes);

// The tiles that PlanTiles cuts of windows with these numbers of changes.
std::vector<SendTile> PlanSendTiles(std::span<const uint32_t> window_counts, uint64_t element_count, uint32_t unit_bytes);

// The tiles that kMaxTileChanges cuts of one run: what kernels use without a list.
std::vector<SendTile> PlainTiles(uint64_t change_count);

// Halves of the tiles with several changes whose digest is the same before and after, the other tiles as they are.
std::vector<SendTile> SplitTiles(std::span<const SendTile> tiles, std::span<const TileSurvey> surveys);

SendTable MakeSendTable(const Frequencies& frequencies);

// The coded tables of a segment in the shape that kernels read, and which they are.
struct SendTablesPlan {
  SendTables set{};  // without the pointer
  std::vector<SendTable> tables;
};
SendTablesPlan PlanSendTables(const SegmentTables& tables, uint32_t unit_bytes);

SegmentHistograms HistogramsOf(const SendHistograms& counted, uint32_t unit_bytes);

}  // namespace xorbit::cuda
