#include "payload/parts.h"

#include <algorithm>

#include "base/checked_math.h"

namespace xorbit {
namespace {

// How far back EncodeParts looks for a tensor that is cut alike: a transformer layer has fewer tensors of one unit, experts
// aside, and experts repeat after a few.
constexpr size_t kMaxPeriod = 64;

void AppendOp(Buffer& out, PartsOp op, uint64_t count) { AppendVarint(out, 4 * count + static_cast<uint64_t>(op)); }

class PartsEncoder {
 public:
  PartsEncoder(const Layout& layout, const SegmentMap& map)
      : layout_(layout), counted_(layout.TensorsOfUnit(map.unit_bytes())) {
    held_.reserve(counted_.size());
    size_t at = 0;
    for (const uint32_t tensor_index : counted_) {
      const size_t begin = at;
      while (at < map.parts().size() && map.parts()[at].tensor_index == tensor_index) ++at;
      held_.emplace_back(map.parts().data() + begin, at - begin);
    }
    assert(at == map.parts().size());
  }

  Buffer Encode() {
    // What follows the last held tensor is left unsaid.
    while (!held_.empty() && held_.back().empty()) held_.pop_back();
    for (size_t at = 0; at < held_.size();) {
      size_t count = 0;
      if (held_[at].empty()) {
        while (held_[at + count].empty()) ++count;
        AppendOp(out_, PartsOp::kSkip, count);
      } else if (IsWhole(at)) {
        while (at + count < held_.size() && IsWhole(at + count)) ++count;
        AppendOp(out_, PartsOp::kWhole, count);
      } else if (const Repeat repeat = LongestRepeat(at); repeat.count > 0) {
        count = repeat.count;
        AppendOp(out_, PartsOp::kRepeat, count);
        AppendVarint(out_, repeat.period);
      } else {
        count = 1;
        AppendParts(held_[at]);
      }
      at += count;
    }
    return std::move(out_);
  }

 private:
  struct Repeat {
    size_t count = 0;
    size_t period = 0;
  };

  bool IsWhole(size_t at) const {
    if (held_[at].size() != 1) return false;
    const Part& part = held_[at][0];
    return part.digits.size() == 1 && part.digits[0].count == layout_.tensors()[counted_[at]].unit_count();
  }

  bool HoldAlike(size_t a, size_t b) const {
    if (held_[a].size() > 1 || held_[a].size() != held_[b].size()) return false;
    return held_[a].empty() || (held_[a][0].origin == held_[b][0].origin && held_[a][0].digits == held_[b][0].digits);
  }

  // The longest, and of equal ones the nearest. Its cost is kMaxPeriod times what it covers.
  Repeat LongestRepeat(size_t at) const {
    Repeat best;
    for (size_t period = 1; period <= std::min(at, kMaxPeriod); ++period) {
      size_t count = 0;
      while (at + count < held_.size() && HoldAlike(at + count - period, at + count)) ++count;
      if (count > best.count) best = {count, period};
    }
    return best;
  }

  void AppendParts(std::span<const Part> parts) {
    AppendOp(out_, PartsOp::kParts, parts.size());
    uint64_t previous_origin = 0;
    for (const Part& part : parts) {
      AppendVarint(out_, part.origin - previous_origin);
      previous_origin = part.origin;
      AppendVarint(out_, part.digits.size());
      for (size_t i = 0; i < part.digits.size(); ++i) {
        AppendVarint(out_, part.digits[i].count);
        if (i + 1 < part.digits.size()) AppendVarint(out_, part.digits[i].stride);
      }
    }
  }

  const Layout& layout_;
  const std::vector<uint32_t>& counted_;     // tensors that a segment of this unit counts
  std::vector<std::span<const Part>> held_;  // indexed like counted_
  Buffer out_;
};

class PartsDecoder {
 public:
  PartsDecoder(const Layout& layout, uint32_t unit_bytes, ConstBytes bytes)
      : layout_(layout), counted_(layout.TensorsOfUnit(unit_bytes)), reader_(bytes) {}

  Result<std::vector<Part>> Decode() {
    while (reader_.remaining() > 0) {
      XORBIT_ASSIGN_OR_RETURN(const uint64_t op, reader_.ReadVarint("an operation of the parts section"));
      const uint64_t count = op / 4;
      if (count == 0) return CorruptError("an operation of the parts section has count 0");
      switch (static_cast<PartsOp>(op % 4)) {
        case PartsOp::kSkip:
          XORBIT_RETURN_IF_ERROR(CheckRoom(count));
          first_part_.resize(first_part_.size() + count, parts_.size());
          break;
        case PartsOp::kWhole:
          XORBIT_RETURN_IF_ERROR(CheckRoom(count));
          for (uint64_t i = 0; i < count; ++i) Hold(WholeTensor(layout_, counted_[first_part_.size()]));
          break;
        case PartsOp::kParts:
          XORBIT_RETURN_IF_ERROR(ReadParts(count));
          break;
        case PartsOp::kRepeat:
          XORBIT_RETURN_IF_ERROR(RepeatParts(count));
          break;
      }
    }
    return std::move(parts_);
  }

 private:
  // first_part_.size() is the number of tensors decided so far, at most counted_.size().
  Status CheckRoom(uint64_t count) const {
    if (count > counted_.size() - first_part_.size())
      return CorruptError("the parts section reaches past the layout's last tensor");
    return {};
  }

  void Hold(Part part) {
    first_part_.push_back(parts_.size());
    parts_.push_back(std::move(part));
  }

  Status ReadParts(uint64_t part_count) {
    XORBIT_RETURN_IF_ERROR(CheckRoom(1));
    const uint32_t tensor_index = counted_[first_part_.size()];
    first_part_.push_back(parts_.size());
    uint64_t previous_origin = 0;
    for (uint64_t i = 0; i < part_count; ++i) {  // every part takes bytes, so a count that lies ends in a truncation
      Part part;
      part.tensor_index = tensor_index;
      XORBIT_ASSIGN_OR_RETURN(const uint64_t origin_step, reader_.ReadVarint("a part's origin"));
      const auto origin = CheckedAdd(previous_origin, origin_step);
      if (!origin || (i > 0 && origin_step == 0)) return CorruptError("the origins of a tensor's parts must ascend");
      part.origin = previous_origin = *origin;
      XORBIT_ASSIGN_OR_RETURN(const uint64_t digit_count, reader_.ReadVarint("a part's digit count"));
      if (digit_count == 0 || digit_count > kMaxDigits) return CorruptError("a part must have 1 to 8 digits");
      part.digits.resize(digit_count, Digit{0, 1});
      for (size_t d = 0; d < digit_count; ++d) {
        XORBIT_ASSIGN_OR_RETURN(part.digits[d].count, reader_.ReadVarint("a digit's count"));
        if (d + 1 == digit_count) break;
        XORBIT_ASSIGN_OR_RETURN(part.digits[d].stride, reader_.ReadVarint("a digit's stride"));
      }
      parts_.push_back(std::move(part));
    }
    return {};
  }

  Status RepeatParts(uint64_t count) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t period, reader_.ReadVarint("a period of the parts section"));
    XORBIT_RETURN_IF_ERROR(CheckRoom(count));
    if (period == 0 || period > first_part_.size()) return CorruptError("the parts section repeats what is not there");
    for (uint64_t i = 0; i < count; ++i) {
      const size_t source = first_part_.size() - period;
      const size_t begin = first_part_[source];
      const size_t end = source + 1 < first_part_.size() ? first_part_[source + 1] : parts_.size();
      // One part a tensor at most: a few bytes must not become parts by the square.
      if (end - begin > 1) return CorruptError("the parts section repeats a tensor of more than one part");
      if (begin == end) {
        first_part_.push_back(parts_.size());
        continue;
      }
      Part part = parts_[begin];
      part.tensor_index = counted_[first_part_.size()];
      Hold(std::move(part));
    }
    return {};
  }

  const Layout& layout_;
  const std::vector<uint32_t>& counted_;  // tensors that a segment of this unit counts
  std::vector<size_t> first_part_;        // per counted tensor decided so far: its first part in parts_
  std::vector<Part> parts_;
  ByteReader reader_;
};

}  // namespace

Buffer EncodeParts(const Layout& layout, const SegmentMap& map) { return PartsEncoder(layout, map).Encode(); }

Result<SegmentMap> DecodeParts(const Layout& layout, uint32_t unit_bytes, uint32_t group, ConstBytes bytes) {
  XORBIT_ASSIGN_OR_RETURN(std::vector<Part> parts, PartsDecoder(layout, unit_bytes, bytes).Decode());
  return SegmentMap::Make(layout, unit_bytes, group, std::move(parts));
}

}  // namespace xorbit
