#include "codec/decoded_source.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/unit.h"

namespace xorbit {
namespace {

// Elements of the part that lie before `tensor_element`: the position in the part's order of the first one at or after it.
uint64_t ElementsBefore(const Part& part, uint64_t tensor_element) {
  if (tensor_element <= part.origin) return 0;
  uint64_t rest = tensor_element - part.origin;
  uint64_t below = 1;  // elements of the digits after the current one
  for (const Digit& digit : part.digits) below *= digit.count;
  uint64_t before = 0;
  for (const Digit& digit : part.digits) {
    below /= digit.count;
    const uint64_t step = rest / digit.stride;
    if (step >= digit.count) return before + digit.count * below;
    before += step * below;
    rest -= step * digit.stride;
  }
  // `rest` is now within one element's stride-1 digit: zero, or the digits after left a hole, which the loop has stepped over.
  return before;
}

// Walks one input's changes; remembers the record it decoded last, since ranges mostly ascend.
class InputReader {
 public:
  explicit InputReader(const DecodedInput& input) : input_(input), runs_(*input.map) {}

  // Calls visit(tensor element, pointer to xor bytes) for every change of segment elements [first, last), ascending.
  template <typename Visit>
  Status ForEach(uint64_t first, uint64_t last, Visit&& visit) {
    if (first >= last) return {};
    const uint32_t unit_bytes = input_.map->unit_bytes();
    for (uint64_t index = RecordReaching(first); index < input_.decoder->record_count(); ++index) {
      if (input_.decoder->info(index).first >= last) break;
      XORBIT_RETURN_IF_ERROR(Load(index));
      uint64_t i = PositionReaching(first);
      for (; i < decoded_.count && info_.first + decoded_.offsets[i] < last; ++i) {
        const uint64_t element = info_.first + decoded_.offsets[i];
        visit(runs_.Find(element).TensorElementOf(element), decoded_.xors.data() + i * unit_bytes);
      }
      next_position_ = i;
      if (info_.last >= last) break;
    }
    return {};
  }

 private:
  static constexpr uint64_t kNoRecord = UINT64_MAX;

  // The first record whose last element is at or after `element`.
  uint64_t RecordReaching(uint64_t element) const {
    if (loaded_ != kNoRecord && info_.first <= element && element <= info_.last) return loaded_;
    uint64_t low = 0;
    uint64_t high = input_.decoder->record_count();
    if (loaded_ != kNoRecord && info_.last < element) {
      // The usual step forward: the next record, if it reaches.
      low = loaded_ + 1;
      if (low < high && input_.decoder->info(low).last >= element) return low;
    }
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (input_.decoder->info(middle).last < element) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  Status Load(uint64_t index) {
    if (loaded_ == index) return {};
    loaded_ = kNoRecord;
    XORBIT_RETURN_IF_ERROR(input_.decoder->Decode(index, &decoded_));
    info_ = input_.decoder->info(index);
    loaded_ = index;
    next_position_ = 0;
    return {};
  }

  // The first change of the loaded record at or after `element`; next_position_ is right when ranges follow each other.
  uint64_t PositionReaching(uint64_t element) const {
    const auto begin = decoded_.offsets.begin();
    const auto end = begin + static_cast<ptrdiff_t>(decoded_.count);
    if (element <= info_.first) return 0;
    const uint64_t offset = element - info_.first;
    const bool follows = (next_position_ == 0 || decoded_.offsets[next_position_ - 1] < offset) &&
                         (next_position_ == decoded_.count || decoded_.offsets[next_position_] >= offset);
    if (follows) return next_position_;
    return static_cast<uint64_t>(std::lower_bound(begin, end, offset) - begin);
  }

  DecodedInput input_;
  RunFinder runs_;
  uint64_t loaded_ = kNoRecord;
  RecordInfo info_;
  DecodedRecord decoded_;
  uint64_t next_position_ = 0;
};

}  // namespace

template <typename Unit>
class DecodedCursor final : public ChangeCursor {
 public:
  DecodedCursor(const DecodedSource& source, uint64_t first_window) : source_(source), window_(first_window) {
    for (const DecodedInput& input : source.inputs_) readers_.emplace_back(input);
    mask_.resize(kWindowElements);
    touched_.resize(kWindowElements / 64);
  }

  Status Next(WindowChanges* changes) override {
    const SegmentMap& target = *source_.target_;
    const uint64_t begin = window_ * kWindowElements;
    RunWalker walker(target, begin, WindowElementsAt(target.element_count(), window_));
    Run run;
    while (walker.Next(&run)) {
      for (size_t i = 0; i < readers_.size(); ++i) XORBIT_RETURN_IF_ERROR(Pour(i, run, begin));
    }
    Extract(changes);
    if (source_.side_ != ValueSide::kNone) FillOlds(begin, changes);
    ++window_;
    return {};
  }

 private:
  // XORs what input `i` has for `run` into the window's mask.
  Status Pour(size_t i, const Run& run, uint64_t window_begin) {
    const SegmentMap& map = *source_.inputs_[i].map;
    for (size_t p = map.FirstPartReaching(run.tensor_index, run.tensor_element); p < map.parts().size(); ++p) {
      const Part& part = map.parts()[p];
      if (part.tensor_index != run.tensor_index || part.origin >= run.tensor_element + run.element_count) break;
      const uint64_t start = map.part_start(p);
      const uint64_t first = start + ElementsBefore(part, run.tensor_element);
      const uint64_t last = start + ElementsBefore(part, run.tensor_element + run.element_count);
      if (first == last) continue;
      XORBIT_RETURN_IF_ERROR(readers_[i].ForEach(first, last, [&](uint64_t tensor_element, const uint8_t* xor_bytes) {
        const uint64_t at = run.segment_element - window_begin + (tensor_element - run.tensor_element);
        mask_[at] = static_cast<Unit>(mask_[at] ^ LoadLe<Unit>(xor_bytes));
        touched_[at / 64] |= uint64_t{1} << (at % 64);
        is_touched_ = true;
      }));
    }
    return {};
  }

  // Moves the non-zero elements of the mask into `changes` and clears the mask.
  void Extract(WindowChanges* changes) {
    uint32_t count = 0;
    changes->count = 0;
    if (!std::exchange(is_touched_, false)) return;
    for (size_t word_index = 0; word_index < touched_.size(); ++word_index) {
      uint64_t word = touched_[word_index];
      touched_[word_index] = 0;
      for (; word != 0; word &= word - 1) {
        const auto at = static_cast<uint32_t>(word_index * 64) + static_cast<uint32_t>(std::countr_zero(word));
        const Unit value = std::exchange(mask_[at], Unit{0});
        changes->positions[count] = static_cast<uint16_t>(at);
        StoreLe<Unit>(changes->xors.data() + count * sizeof(Unit), value);
        count += value != 0 ? 1 : 0;  // zero: cancelled
      }
    }
    changes->count = count;
  }

  // Old values lie a cache line or more apart in memory that was last read a gigabyte ago: asked for ahead, many misses are
  // waited for at once.
  void FillOlds(uint64_t window_begin, WindowChanges* changes) const {
    constexpr uint32_t kAhead = 48;
    RunFinder runs(*source_.target_);
    for (uint32_t i = 0; i < changes->count; ++i) {
      const uint64_t element = window_begin + changes->positions[i];
      const Run& run = runs.Find(element);
      const uint8_t* values = source_.values_->Of(run).data();
      const uint64_t ahead = window_begin + changes->positions[std::min(i + kAhead, changes->count - 1)];
      if (ahead - run.segment_element < run.element_count) {
        __builtin_prefetch(values + (ahead - run.segment_element) * sizeof(Unit));
      }
      Unit old = LoadLe<Unit>(values + (element - run.segment_element) * sizeof(Unit));
      if (source_.side_ == ValueSide::kTarget)
        old = static_cast<Unit>(old ^ LoadLe<Unit>(changes->xors.data() + i * sizeof(Unit)));
      StoreLe<Unit>(changes->olds.data() + i * sizeof(Unit), old);
    }
  }

  const DecodedSource& source_;
  uint64_t window_;
  std::vector<InputReader> readers_;
  std::vector<Unit> mask_;         // the window's XORs so far; all zero between windows
  std::vector<uint64_t> touched_;  // a bit per element of mask_ that was written
  bool is_touched_ = false;        // whether any bit is set
};

DecodedSource::DecodedSource(const SegmentMap& target, std::vector<DecodedInput> inputs, ValueSide side,
                             std::optional<SegmentBytes> values, const ReachedElements* reached)
    : target_(&target), inputs_(std::move(inputs)), side_(side), values_(std::move(values)), reached_(reached) {}

bool DecodedSource::MayChange(uint64_t first_window, uint64_t window_count) const {
  if (reached_ == nullptr) return true;
  const uint64_t first = first_window * kWindowElements;
  return reached_->Touch(*target_, first, std::min(window_count * kWindowElements, element_count() - first));
}

std::unique_ptr<ChangeCursor> DecodedSource::Open(uint64_t first_window, uint64_t /*window_count*/) const {
  return WithUnit(unit_bytes(), [&]<typename Unit>() -> std::unique_ptr<ChangeCursor> {
    return std::make_unique<DecodedCursor<Unit>>(*this, first_window);
  });
}

}  // namespace xorbit
