// All places are counted in half bytes here, the smallest granule, so that pieces of every granule and cast compare.
#include "tensor/live_proofs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "tensor/tiling.h"

namespace xorbit {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// Live places from the first to the last of one piece.
struct Hull {
  uint32_t region_index = 0;
  uint32_t live_bits = 0;  // of one granule's image
  uint64_t begin = 0;
  uint64_t end = 0;
  const Piece* piece = nullptr;
};

TilingBox LiveBox(const PieceClass& shape, const Hull& hull) {
  std::array<LiveDigit, kMaxLiveDigits> digits = shape.digits;
  // Unused digits are zero and go last.
  std::sort(digits.begin(), digits.end(), [](const LiveDigit& a, const LiveDigit& b) {
    return a.live_stride != b.live_stride ? a.live_stride > b.live_stride : a.count > b.count;
  });
  const uint64_t scale = hull.live_bits / 4;
  TilingBox box;
  for (uint32_t i = 0; i < shape.digit_count; ++i) box.Append({digits[i].count, digits[i].live_stride * scale}, false);
  box.Append({scale, 1}, true);
  return box;
}

TilingBox CanonicalBox(const PieceClass& shape, const Piece& piece) {
  const uint64_t scale = shape.granule_bits / 4;
  TilingBox box;
  box.origin = piece.origin * scale;
  for (uint32_t i = 0; i < shape.digit_count; ++i) {
    box.Append({shape.digits[i].count, shape.digits[i].canonical_stride * scale}, false);
  }
  box.Append({scale, 1}, true);
  return box;
}

class SingleWriterProof {
 public:
  SingleWriterProof(const Layout& layout, const LiveMap& map) : layout_(layout), map_(map) {}

  Status Prove() {
    for (const LiveRegion& region : map_.regions()) {
      if (region.byte_count > kMaxBytes)
        return UnsupportedError("region " + Quoted(region.name) + " is larger than any memory");
    }
    hulls_.reserve(map_.pieces().size() + map_.shadows().size());
    for (const Piece& piece : map_.pieces()) AddHull(piece, map_.class_of(piece).granule_bits);
    for (const ShadowBinding& shadow : map_.shadows()) {
      AddHull(shadow.piece, LiveBitsOf(shadow.cast, map_.class_of(shadow.piece).granule_bits));
    }
    std::sort(hulls_.begin(), hulls_.end(), [](const Hull& a, const Hull& b) {
      return std::tie(a.region_index, a.begin, a.end, a.piece) < std::tie(b.region_index, b.begin, b.end, b.piece);
    });
    // Most hulls touch no other; only those that do need a closer look, each such group by itself.
    for (size_t first = 0; first < hulls_.size();) {
      uint64_t end = hulls_[first].end;
      size_t last = first + 1;
      for (; last < hulls_.size() && hulls_[last].region_index == hulls_[first].region_index && hulls_[last].begin < end;
           ++last) {
        end = std::max(end, hulls_[last].end);
      }
      if (last - first > 1) XORBIT_RETURN_IF_ERROR(ProveGroup(first, last, end));
      first = last;
    }
    return {};
  }

 private:
  void AddHull(const Piece& piece, uint32_t live_bits) {
    const uint64_t scale = live_bits / 4;
    const uint64_t begin = piece.live_origin * scale;
    hulls_.push_back({piece.region_index, live_bits, begin, begin + map_.class_of(piece).live_extent() * scale, &piece});
  }

  Status ProveGroup(size_t first, size_t last, uint64_t end) {
    const uint64_t begin = hulls_[first].begin;
    boxes_.clear();
    for (size_t i = first; i < last; ++i) {
      TilingBox& box = boxes_.emplace_back(LiveBox(map_.class_of(*hulls_[i].piece), hulls_[i]));
      box.origin = hulls_[i].begin - begin;
      box.id = static_cast<uint32_t>(i);
    }
    const TilingFault fault = FindTilingFault(boxes_, end - begin, TilingGoal::kDisjoint, &run_budget_);
    if (!fault.found()) return {};
    const std::string region = "region " + Quoted(map_.regions()[hulls_[first].region_index].name);
    const std::string a = NameOf(fault.first_id);
    const std::string b = NameOf(fault.second_id);
    if (fault.kind == TilingFault::Kind::kTooIrregular) {
      return UnsupportedError("tensor " + a + " lies too irregularly in " + region + " to prove that every bit has one writer");
    }
    const std::string place = " byte " + std::to_string((begin + fault.at) / 2) + " of " + region;
    if (a == b) return RefusedError("tensor " + a + " would write" + place + " twice");
    return RefusedError("tensors " + a + " and " + b + " would both write" + place + "; if they are tied, declare an alias");
  }

  std::string NameOf(uint32_t hull) const { return Quoted(layout_.tensors()[hulls_[hull].piece->tensor_index].name); }

  const Layout& layout_;
  const LiveMap& map_;
  std::vector<Hull> hulls_;
  std::vector<TilingBox> boxes_;
  uint64_t run_budget_ = kTilingRunLimit;
};

// What one rank counts of one tensor, as boxes.
void AddCounted(const LiveMap& map, const TensorSpec& tensor, uint32_t tensor_index, uint32_t rank,
                std::vector<TilingBox>* boxes) {
  const uint32_t placed = map.alias_of(tensor_index).value_or(tensor_index);
  const size_t first = boxes->size();
  for (const Piece& piece : map.pieces_of(placed)) {
    if (piece.counted) boxes->push_back(CanonicalBox(map.class_of(piece), piece));
  }
  const std::span<const ShadowBinding> shadows = map.shadows_of(placed);
  for (const ShadowBinding& shadow : shadows) {
    if (shadow.piece.counted) boxes->push_back(CanonicalBox(map.class_of(shadow.piece), shadow.piece));
  }
  const std::span<const DerivedBinding> derived = map.derived_of(placed);
  const bool is_kept_only = map.pieces_of(placed).empty() && shadows.empty() && !derived.empty();
  if (is_kept_only && derived.front().counted) boxes->emplace_back().Append({tensor.byte_count * 2, 1}, true);
  for (size_t i = first; i < boxes->size(); ++i) (*boxes)[i].id = rank;
}

Status DescribeCoverage(const TensorSpec& tensor, const TilingFault& fault) {
  const std::string element =
      "tensor " + Quoted(tensor.name) + ": element " + std::to_string(fault.at / (uint64_t{2} * UnitBytesOf(tensor.dtype)));
  switch (fault.kind) {
    case TilingFault::Kind::kNone:
      return {};
    case TilingFault::Kind::kMissing:
      return RefusedError(element + " has no place that any rank counts");
    case TilingFault::Kind::kTwice:
      if (fault.first_id == fault.second_id) {
        return RefusedError(element + " is counted twice by rank " + std::to_string(fault.first_id));
      }
      return RefusedError(element + " is counted by ranks " + std::to_string(std::min(fault.first_id, fault.second_id)) +
                          " and " + std::to_string(std::max(fault.first_id, fault.second_id)));
    case TilingFault::Kind::kTooIrregular:
      break;
  }
  return UnsupportedError("tensor " + Quoted(tensor.name) +
                          " is cut too irregularly to prove that every element is counted once");
}

}  // namespace

Status ProveSingleWriter(const Layout& layout, const LiveMap& map) { return SingleWriterProof(layout, map).Prove(); }

Status ProveCohortCoverage(const Layout& layout, std::span<const LiveMap* const> ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (uint32_t group = 0; group < layout.groups().size(); ++group) {
      if (ranks[rank]->is_absent(group) == ranks[0]->is_absent(group)) continue;
      return RefusedError("ranks 0 and " + std::to_string(rank) + " disagree whether presence group " +
                          Quoted(layout.groups()[group]) + " is absent");
    }
  }
  uint64_t run_budget = kTilingRunLimit;
  std::vector<TilingBox> boxes;
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (tensor.byte_count == 0 || (!ranks.empty() && ranks[0]->is_absent(tensor.group))) continue;
    if (tensor.byte_count > kMaxBytes) return UnsupportedError("tensor " + Quoted(tensor.name) + " is larger than any memory");
    boxes.clear();
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) AddCounted(*ranks[rank], tensor, i, rank, &boxes);
    if (boxes.empty() && tensor.frozen) continue;
    XORBIT_RETURN_IF_ERROR(
        DescribeCoverage(tensor, FindTilingFault(boxes, tensor.byte_count * 2, TilingGoal::kExact, &run_budget)));
  }
  return {};
}

Status CheckRegions(const LiveMap& map, std::span<const MutableBytes> memory) {
  const auto regions = map.regions();
  if (memory.size() != regions.size()) {
    return RefusedError("the engine shows " + std::to_string(memory.size()) + " regions; its live map declares " +
                        std::to_string(regions.size()));
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < memory.size(); ++i) {
    if (memory[i].size() != regions[i].byte_count) {
      return RefusedError("region " + Quoted(regions[i].name) + " has " + std::to_string(memory[i].size()) +
                          " bytes; its live map declares " + std::to_string(regions[i].byte_count));
    }
    if (!memory[i].empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::less<>()(memory[a].data(), memory[b].data()); });
  for (size_t i = 1; i < order.size(); ++i) {
    const MutableBytes before = memory[order[i - 1]];
    if (std::less<>()(memory[order[i]].data(), before.data() + before.size())) {
      return RefusedError("regions " + Quoted(regions[order[i - 1]].name) + " and " + Quoted(regions[order[i]].name) +
                          " share memory");
    }
  }
  return {};
}

}  // namespace xorbit
