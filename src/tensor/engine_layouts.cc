#include "tensor/engine_layouts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/checked_math.h"
#include "base/text.h"
#include "tensor/name_pattern.h"

namespace xorbit {
namespace {

constexpr uint32_t kMaxSlots = 64;
constexpr uint32_t kMaxExpertSlots = 1U << 20;

// One place of a tensor among the experts of its region, or the only one.
struct ExpertPlace {
  uint64_t block = 0;             // in the region
  uint64_t canonical_expert = 0;  // in a tensor that stacks them
  bool counted = true;
};

// A tensor that this rank holds, cut but not yet placed. Columns are counted in granules.
struct Item {
  uint32_t tensor_index = 0;
  const EngineRule* rule = nullptr;
  std::string region;
  std::vector<ExpertPlace> places;
  bool counted = true;
  uint32_t granule_bits = 0;
  uint32_t live_bits = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  AxisSlice row_slice;
  AxisSlice column_slice;
};

// A parameter of the engine: `blocks` experts, each of the rows of all slots.
struct RegionPlan {
  const Item* first = nullptr;
  std::vector<uint64_t> slot_rows;
  uint64_t columns = 0;
  uint64_t blocks = 1;

  uint64_t rows_before(uint64_t slot) const {
    uint64_t rows = 0;
    for (uint64_t i = 0; i < slot; ++i) rows += slot_rows[i];
    return rows;
  }
  uint64_t rows() const { return rows_before(slot_rows.size()); }
  uint64_t padded_columns() const {
    return first->rule->swizzle ? DivideRoundUp(columns, kSwizzleColumns) * kSwizzleColumns : columns;
  }
  uint64_t block_granules() const {
    const uint64_t padded_rows = first->rule->swizzle ? DivideRoundUp(rows(), kSwizzleRows) * kSwizzleRows : rows();
    return padded_rows * padded_columns();
  }
};

class EnginePlanner {
 public:
  EnginePlanner(const Layout& layout, const EngineLayout& engine, const EngineRank& rank)
      : layout_(layout), engine_(engine), rank_(rank) {}

  Result<LiveMapSpec> Plan() {
    XORBIT_RETURN_IF_ERROR(CheckDeclaration());
    spec_.epoch = engine_.epoch;
    spec_.absent_groups = engine_.absent_groups;
    for (uint32_t i = 0; i < layout_.tensors().size(); ++i) XORBIT_RETURN_IF_ERROR(TakeTensor(i));
    for (const Item& item : items_) XORBIT_RETURN_IF_ERROR(AddToRegion(item));
    XORBIT_RETURN_IF_ERROR(CloseRegions());
    for (const Item& item : items_) XORBIT_RETURN_IF_ERROR(EmitPieces(item));
    spec_.classes = std::move(classes_).Take();
    return std::move(spec_);
  }

 private:
  Status CheckDeclaration() {
    const auto divides = [&](uint32_t size) { return size != 0 && rank_.world_size % size == 0; };
    if (rank_.rank >= rank_.world_size || !divides(rank_.tp_size) || !divides(rank_.ep_size)) {
      return UsageError("an engine's rank must be below its world size, which tp_size and ep_size must divide");
    }
    for (const EngineRule& rule : engine_.rules) {
      const auto fail = [&](const std::string& why) { return UsageError("the rule for '" + rule.pattern + "' " + why); };
      if (rule.slot >= kMaxSlots) return fail("has a slot over " + std::to_string(kMaxSlots - 1));
      if (rule.pad_to == 0) return fail("pads to a multiple of 0");
      if (rule.swizzle && (rule.transpose || !rule.nibble_order.empty())) return fail("swizzles and reorders besides");
      if (rule.placement == Placement::kShadow && !rule.nibble_order.empty()) return fail("moves half bytes of a shadow");
      if (rule.placement == Placement::kAlias && rule.target.empty()) return fail("is an alias of nothing");
      if (rule.placement == Placement::kDerived && rule.callback.empty()) return fail("is derived by nothing");
      if (rule.slice == Slice::kReplicate && (!rule.sections.empty() || rule.heads != 0 || rule.pad_to != 1)) {
        return fail("has sections, heads or padding but cuts nothing");
      }
      std::vector<uint32_t> order = rule.nibble_order;
      std::sort(order.begin(), order.end());
      for (uint32_t i = 0; i < order.size(); ++i) {
        if (order[i] != i) return fail("has an order of half bytes that is not a permutation");
      }
    }
    return PlaceExperts();
  }

  Status PlaceExperts() {
    std::vector<uint32_t> slots = engine_.expert_slots;
    if (slots.empty()) {
      for (uint32_t i = 0; i < std::min(engine_.expert_count, kMaxExpertSlots); ++i) slots.push_back(i);
    }
    if (engine_.expert_count > kMaxExpertSlots || slots.size() > kMaxExpertSlots || slots.size() % rank_.ep_size != 0) {
      return UsageError("the experts do not divide over " + std::to_string(rank_.ep_size) + " groups of ranks");
    }
    experts_per_rank_ = slots.size() / rank_.ep_size;
    const uint64_t first = rank_.rank / moe_tp_size() * experts_per_rank_;
    places_of_expert_.resize(engine_.expert_count);
    std::vector<bool> seen(engine_.expert_count, false);
    for (uint64_t i = 0; i < slots.size(); ++i) {
      if (slots[i] >= engine_.expert_count) return UsageError("an expert slot holds an expert that is not there");
      if (i - first < experts_per_rank_) {
        places_of_expert_[slots[i]].push_back({.block = i - first, .canonical_expert = slots[i], .counted = !seen[slots[i]]});
      }
      seen[slots[i]] = true;
    }
    return {};
  }

  uint32_t moe_tp_size() const { return rank_.world_size / rank_.ep_size; }
  static bool IsExpert(const EngineRule& rule) { return rule.expert_capture != 0 || rule.stacks_experts; }
  AxisCut CutOf(const EngineRule& rule) const {
    return IsExpert(rule) ? AxisCut{rank_.rank % moe_tp_size(), moe_tp_size()}
                          : AxisCut{rank_.rank % rank_.tp_size, rank_.tp_size};
  }
  // Whether this rank is the first of those that hold the same part.
  bool CountsReplica(const EngineRule& rule) const {
    const bool first_group = IsExpert(rule) || rank_.rank < rank_.tp_size;
    return first_group && (rule.slice != Slice::kReplicate || CutOf(rule).index == 0);
  }

  Status Fail(uint32_t tensor_index, const std::string& why) const {
    return RefusedError("tensor " + Quoted(layout_.tensors()[tensor_index].name) + " " + why);
  }

  Status TakeTensor(uint32_t tensor_index) {
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    const bool absent =
        std::find(engine_.absent_groups.begin(), engine_.absent_groups.end(), tensor.group) != engine_.absent_groups.end();
    if (tensor.byte_count == 0 || absent) return {};
    std::optional<std::vector<std::string_view>> captures;
    const EngineRule* rule = nullptr;
    for (auto at = engine_.rules.rbegin(); at != engine_.rules.rend() && !captures; ++at) {
      captures = MatchName(at->pattern, tensor.name);
      rule = &*at;
    }
    if (!captures) {
      if (tensor.frozen) return {};
      return Fail(tensor_index, "has no rule; add one, or declare its presence group absent");
    }
    XORBIT_ASSIGN_OR_RETURN(const std::vector<ExpertPlace> places, PlacesOf(tensor_index, *rule, *captures));
    if (places.empty()) return {};  // an expert of other ranks
    XORBIT_ASSIGN_OR_RETURN(const std::string target, FillIn(rule->target, *captures));
    if (!rule->callback.empty()) {
      const bool counted = CountsReplica(*rule) && places.front().counted;
      spec_.derived.push_back({.tensor_index = tensor_index, .callback = rule->callback, .counted = counted});
    }
    if (rule->placement == Placement::kDerived) return {};
    if (rule->placement == Placement::kAlias) {
      const auto of = layout_.Find(target);
      if (!of) return Fail(tensor_index, "is tied to " + Quoted(target) + ", which the layout does not have");
      spec_.aliases.push_back({.tensor_index = tensor_index, .of_tensor_index = *of});
      return {};
    }
    return CutTensor({.tensor_index = tensor_index,
                      .rule = rule,
                      .region = target.empty() ? tensor.name : target,
                      .places = places,
                      .counted = CountsReplica(*rule),
                      .row_slice = {},
                      .column_slice = {}});
  }

  Result<std::vector<ExpertPlace>> PlacesOf(uint32_t tensor_index, const EngineRule& rule,
                                            const std::vector<std::string_view>& captures) const {
    if (rule.expert_capture != 0) {
      if (rule.expert_capture > captures.size()) return UsageError("the rule for '" + rule.pattern + "' has no such capture");
      const std::string_view text = captures[rule.expert_capture - 1];
      uint32_t expert = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), expert);
      if (error != std::errc() || end != text.data() + text.size() || expert >= engine_.expert_count) {
        return Fail(tensor_index,
                    "names the expert " + Quoted(text) + ", but the engine has " + std::to_string(engine_.expert_count));
      }
      std::vector<ExpertPlace> places = places_of_expert_[expert];
      for (ExpertPlace& place : places) place.canonical_expert = 0;  // each has a tensor of its own
      return places;
    }
    if (!rule.stacks_experts) return std::vector<ExpertPlace>{ExpertPlace()};
    const std::vector<uint64_t>& shape = layout_.tensors()[tensor_index].shape;
    if (shape.empty() || shape[0] != engine_.expert_count) {
      return Fail(tensor_index, "does not have " + std::to_string(engine_.expert_count) + " experts as its first dimension");
    }
    std::vector<ExpertPlace> places;
    for (const auto& of_one : places_of_expert_) places.insert(places.end(), of_one.begin(), of_one.end());
    return places;
  }

  Status CutTensor(Item item) {
    const EngineRule& rule = *item.rule;
    const TensorSpec& tensor = layout_.tensors()[item.tensor_index];
    const uint32_t bits = BitsOf(tensor.dtype);
    item.granule_bits = rule.nibble_order.empty() ? 8 * UnitBytesOf(tensor.dtype) : 4;
    item.live_bits = rule.placement == Placement::kShadow ? LiveBitsOf(rule.cast, item.granule_bits) : item.granule_bits;
    if (rule.swizzle && item.live_bits != 8) return Fail(item.tensor_index, "is swizzled but its elements are not bytes");
    const size_t rows_at = rule.stacks_experts ? 1 : 0;
    item.rows = tensor.shape.size() > rows_at ? tensor.shape[rows_at] : 1;
    uint64_t column_elements = 1;
    for (size_t i = rows_at + 1; i < tensor.shape.size(); ++i) column_elements *= tensor.shape[i];
    if (column_elements == 1 && bits < item.granule_bits) std::swap(item.rows, column_elements);  // a packed vector is one row
    if (column_elements * bits % item.granule_bits != 0)
      return Fail(item.tensor_index, "has rows that do not end on whole bytes");
    item.columns = column_elements * bits / item.granule_bits;
    XORBIT_ASSIGN_OR_RETURN(item.row_slice, CutAxis(item, Slice::kRows, item.rows, 1, 1));
    XORBIT_ASSIGN_OR_RETURN(item.column_slice, CutAxis(item, Slice::kColumns, column_elements, bits, item.granule_bits));
    if (!rule.nibble_order.empty()) {
      auto reordered = Reorder(item.column_slice.runs, rule.nibble_order);
      if (!reordered.ok()) return Fail(item.tensor_index, reordered.status().message());
      item.column_slice.runs = std::move(reordered).value();
    }
    items_.push_back(std::move(item));
    return {};
  }

  // One axis of `length` elements of `bits`, in granules.
  Result<AxisSlice> CutAxis(const Item& item, Slice axis, uint64_t length, uint32_t bits, uint32_t granule_bits) const {
    const EngineRule& rule = *item.rule;
    const bool is_cut = rule.slice == axis;
    std::vector<AxisSection> sections = is_cut ? rule.sections : std::vector<AxisSection>();
    if (sections.empty()) sections.push_back({.length = length, .heads = is_cut ? rule.heads : 0});
    uint64_t total = 0;
    for (AxisSection& section : sections) {
      const auto next = CheckedAdd(total, section.length);
      if (!next || *next > length) return Fail(item.tensor_index, "is shorter than its sections");
      total = *next;
      if (section.length * bits % granule_bits != 0)
        return Fail(item.tensor_index, "has a section that does not end on whole bytes");
      section.length = section.length * bits / granule_bits;
    }
    if (total != length) return Fail(item.tensor_index, "is longer than its sections");
    const uint64_t pad_to = is_cut ? std::max<uint64_t>(1, rule.pad_to * bits / granule_bits) : 1;
    auto slice = SliceAxis(sections, pad_to, is_cut ? CutOf(rule) : AxisCut());
    if (!slice.ok()) return Fail(item.tensor_index, slice.status().message());
    return slice;
  }

  Status AddToRegion(const Item& item) {
    RegionPlan& region = regions_[item.region];
    const EngineRule& rule = *item.rule;
    if (region.first == nullptr) {
      region.first = &item;
      region.columns = item.column_slice.live_length;
      region.blocks = IsExpert(rule) ? experts_per_rank_ : 1;
    }
    const EngineRule& first = *region.first->rule;
    const std::string where =
        " that lies in region " + Quoted(item.region) + " with " + Quoted(layout_.tensors()[region.first->tensor_index].name);
    if (item.column_slice.live_length != region.columns || item.live_bits != region.first->live_bits) {
      return Fail(item.tensor_index, "has other columns or elements than the tensor" + where);
    }
    if (rule.swizzle != first.swizzle || rule.transpose != first.transpose || rule.interleave_rows != first.interleave_rows ||
        IsExpert(rule) != IsExpert(first)) {
      return Fail(item.tensor_index, "is laid out in another way than the tensor" + where);
    }
    region.slot_rows.resize(std::max<size_t>(region.slot_rows.size(), rule.slot + size_t{1}), 0);
    uint64_t& rows = region.slot_rows[rule.slot];
    if (rows != 0 && rows != item.row_slice.live_length)
      return Fail(item.tensor_index, "has other rows than the tensor" + where);
    rows = item.row_slice.live_length;
    return {};
  }

  Status CloseRegions() {
    for (const auto& [name, region] : regions_) {
      const EngineRule& rule = *region.first->rule;
      for (const uint64_t rows : region.slot_rows) {
        if (rows == 0) return RefusedError("region " + Quoted(name) + " has an empty slot: no tensor fills it");
        if (rule.interleave_rows != 0 && (rows != region.slot_rows[0] || rows % rule.interleave_rows != 0)) {
          return RefusedError("region " + Quoted(name) + " has slots of rows that cannot take turns in groups of " +
                              std::to_string(rule.interleave_rows));
        }
      }
      const auto granules = CheckedMul(region.block_granules(), region.blocks);
      const auto bits = granules ? CheckedMul(*granules, region.first->live_bits) : std::nullopt;
      if (!bits || *bits % 8 != 0) return RefusedError("region " + Quoted(name) + " does not have a whole number of bytes");
      region_index_.emplace(name, static_cast<uint32_t>(spec_.regions.size()));
      spec_.regions.push_back({.name = name, .byte_count = *bits / 8});
    }
    return {};
  }

  Status EmitPieces(const Item& item) {
    const EngineRule& rule = *item.rule;
    const RegionPlan& region = regions_.at(item.region);
    std::vector<AxisRun> rows = item.row_slice.runs;
    if (rule.interleave_rows != 0) {
      rows = InterleaveRows(rows, rule.interleave_rows, rule.slot, region.slot_rows.size());
    } else {
      for (AxisRun& run : rows) run.live += region.rows_before(rule.slot);
    }
    std::vector<AxisRun> columns = item.column_slice.runs;
    uint64_t row_pitch = region.columns;
    uint64_t column_pitch = 1;
    if (rule.swizzle) {
      rows = SwizzleRows(rows, region.padded_columns());
      columns = SwizzleColumns(columns);
      row_pitch = 1;
    } else if (rule.transpose) {
      row_pitch = 1;
      column_pitch = region.rows();
    }
    const std::vector<AxisBox> column_boxes = FindBoxes(columns);
    for (const AxisBox& row_box : FindBoxes(rows)) {
      for (const AxisBox& column_box : column_boxes) {
        XORBIT_RETURN_IF_ERROR(
            EmitBox(item, region, Scaled(row_box, item.columns, row_pitch), Scaled(column_box, 1, column_pitch)));
      }
    }
    return {};
  }

  static AxisBox Scaled(AxisBox box, uint64_t canonical_scale, uint64_t live_scale) {
    box.canonical *= canonical_scale;
    box.live *= live_scale;
    for (LiveDigit& digit : box.digits) {
      digit = {digit.count, digit.canonical_stride * canonical_scale, digit.live_stride * live_scale};
    }
    return box;
  }

  Status EmitBox(const Item& item, const RegionPlan& region, AxisBox rows, const AxisBox& columns) {
    std::vector<LiveDigit> digits = rows.digits;
    digits.insert(digits.end(), columns.digits.begin(), columns.digits.end());
    const auto shape = MakePieceClass(item.granule_bits, digits);
    if (shape.ok()) {
      EmitCopies(item, region,
                 {.tensor_index = item.tensor_index,
                  .class_index = classes_.Intern(*shape),
                  .region_index = region_index_.at(item.region),
                  .counted = rows.counted && columns.counted,
                  .origin = rows.canonical + columns.canonical,
                  .live_origin = rows.live + columns.live});
      return {};
    }
    if (rows.digits.empty()) return Fail(item.tensor_index, shape.status().message());
    // Rows that repeat at steps which do not nest with the rest (groups that take turns and straddle tiles): each by itself.
    const LiveDigit outer = rows.digits.front();
    rows.digits.erase(rows.digits.begin());
    for (uint64_t i = 0; i < outer.count; ++i) {
      XORBIT_RETURN_IF_ERROR(EmitBox(item, region, rows, columns));
      rows.canonical += outer.canonical_stride;
      rows.live += outer.live_stride;
    }
    return {};
  }

  // The same piece in the block of each expert.
  void EmitCopies(const Item& item, const RegionPlan& region, const Piece& of_first) {
    for (const ExpertPlace& place : item.places) {
      Piece piece = of_first;
      piece.origin += place.canonical_expert * item.rows * item.columns;
      piece.live_origin += place.block * region.block_granules();
      piece.counted = of_first.counted && item.counted && place.counted;
      if (item.rule->placement == Placement::kShadow) {
        spec_.shadows.push_back({.cast = item.rule->cast, .piece = piece});
      } else {
        spec_.pieces.push_back(piece);
      }
    }
  }

  const Layout& layout_;
  const EngineLayout& engine_;
  const EngineRank& rank_;
  uint64_t experts_per_rank_ = 0;
  std::vector<std::vector<ExpertPlace>> places_of_expert_;  // on this rank
  std::vector<Item> items_;
  std::map<std::string, RegionPlan> regions_;
  std::map<std::string, uint32_t> region_index_;
  ClassTable classes_;
  LiveMapSpec spec_;
};

}  // namespace

Result<LiveMapSpec> PlanEngine(const Layout& layout, const EngineLayout& engine, const EngineRank& rank) {
  return EnginePlanner(layout, engine, rank).Plan();
}

}  // namespace xorbit
