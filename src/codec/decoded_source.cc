#include "codec/decoded_source.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/unit.h"
#include "codec/live_reader.h"

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

  // Calls visit(record, begin, end) for every record with changes among segment elements [first, last), ascending: changes
  // [begin, end) of it, to be asked for until the next call.
  template <typename Visit>
  Status ForEach(uint64_t first, uint64_t last, Visit&& visit) {
    if (first >= last) return {};
    for (uint64_t index = RecordReaching(first); index < input_.decoder->record_count(); ++index) {
      if (input_.decoder->info(index).first >= last) break;
      XORBIT_RETURN_IF_ERROR(Load(index));
      const uint64_t begin = PositionReaching(first);
      uint64_t end = begin;
      while (end < decoded_.count && info_.first + decoded_.offsets[end] < last) ++end;
      if (begin < end) visit(index, begin, end);
      next_position_ = end;
      if (info_.last >= last) break;
    }
    return {};
  }

  // Of a change that ForEach has come to; elements ascend from call to call.
  uint64_t TensorElementOf(uint64_t change) {
    const uint64_t element = info_.first + decoded_.offsets[change];
    return runs_.Find(element).TensorElementOf(element);
  }
  const uint8_t* XorBytesOf(uint64_t change) const { return decoded_.xors.data() + change * input_.map->unit_bytes(); }

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
    if (source.live_) live_reader_.emplace(source.live_->memory);
  }

  Status Next(WindowChanges* changes) override {
    const SegmentMap& target = *source_.target_;
    const uint64_t begin = window_ * kWindowElements;
    tallies_ = live_reader_ && !source_.tallied_[window_].exchange(true, std::memory_order_relaxed);
    RunWalker walker(target, begin, WindowElementsAt(target.element_count(), window_));
    Run run;
    while (walker.Next(&run)) {
      for (size_t i = 0; i < readers_.size(); ++i) XORBIT_RETURN_IF_ERROR(Pour(i, run, begin));
    }
    Extract(changes);
    if (live_reader_) {
      FillLiveOlds(begin, changes);
    } else if (source_.side_ != ValueSide::kNone) {
      FillOlds(begin, changes);
    }
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
      InputReader& reader = readers_[i];
      XORBIT_RETURN_IF_ERROR(reader.ForEach(first, last, [&](uint64_t record, uint64_t begin, uint64_t end) {
        if (live_reader_) return PourWeighed(i, run, window_begin, record, begin, end);
        for (uint64_t change = begin; change < end; ++change) {
          const uint64_t at = run.segment_element - window_begin + (reader.TensorElementOf(change) - run.tensor_element);
          Touch(at, LoadLe<Unit>(reader.XorBytesOf(change)));
        }
      }));
    }
    return {};
  }

  void Touch(uint64_t at, Unit xor_bits) {
    mask_[at] = static_cast<Unit>(mask_[at] ^ xor_bits);
    touched_[at / 64] |= uint64_t{1} << (at % 64);
    is_touched_ = true;
  }

  // The same, of what live memory holds, adding to the record's sums.
  void PourWeighed(size_t i, const Run& run, uint64_t window_begin, uint64_t record, uint64_t begin, uint64_t end) {
    InputReader& reader = readers_[i];
    offsets_.clear();
    for (uint64_t change = begin; change < end; ++change) {
      offsets_.push_back(static_cast<uint32_t>(reader.TensorElementOf(change) - run.tensor_element));
    }
    live_reader_->Read(run.tensor_index, run.tensor_element, offsets_, &values_);
    const uint64_t key = source_.live_->tensor_keys[run.tensor_index];
    ChangeDigest sum;
    for (size_t k = 0; k < offsets_.size(); ++k) {
      const LiveValue<Unit>& value = values_[k];
      const uint64_t at = run.segment_element - window_begin + offsets_[k];
      const uint64_t byte = (run.tensor_element + offsets_[k]) * sizeof(Unit);
      const Unit xor_bits = LoadLe<Unit>(reader.XorBytesOf(begin + k));
      const auto old_bits = static_cast<Unit>(value.bits ^ mask_[at]);
      AddElement<Unit, false>(BlockFactorsOf(key, byte / kDigestBlockBytes), byte, old_bits & value.counted,
                              (old_bits ^ xor_bits) & value.counted, &sum);
      Touch(at, static_cast<Unit>(xor_bits & value.held));
    }
    if (tallies_) source_.live_->tally->Add(source_.inputs_[i].tally_index, record, sum);
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

  void FillLiveOlds(uint64_t window_begin, WindowChanges* changes) {
    RunFinder runs(*source_.target_);
    for (uint32_t i = 0; i < changes->count;) {
      const Run& run = runs.Find(window_begin + changes->positions[i]);
      const uint64_t to_tensor = run.TensorElementOf(window_begin);  // of position 0; wraps when the run begins later
      offsets_.clear();
      for (uint32_t k = i; k < changes->count; ++k) {
        if (window_begin + changes->positions[k] - run.segment_element >= run.element_count) break;
        offsets_.push_back(changes->positions[k]);
      }
      live_reader_->Read(run.tensor_index, to_tensor, offsets_, &values_);
      for (const LiveValue<Unit>& value : values_) StoreLe<Unit>(changes->olds.data() + i++ * sizeof(Unit), value.bits);
    }
  }

  const DecodedSource& source_;
  uint64_t window_;
  std::vector<InputReader> readers_;
  std::vector<Unit> mask_;         // the window's XORs so far; all zero between windows
  std::vector<uint64_t> touched_;  // a bit per element of mask_ that was written
  bool is_touched_ = false;        // whether any bit is set

  std::optional<LiveReader> live_reader_;
  bool tallies_ = false;  // this window has not been read before
  std::vector<uint32_t> offsets_;
  std::vector<LiveValue<Unit>> values_;
};

DecodedSource::DecodedSource(const SegmentMap& target, std::vector<DecodedInput> inputs, ValueSide side,
                             std::optional<SegmentBytes> values, const ReachedElements* reached)
    : target_(&target), inputs_(std::move(inputs)), side_(side), values_(std::move(values)), reached_(reached) {}

DecodedSource::DecodedSource(const SegmentMap& target, std::vector<DecodedInput> inputs, const LiveValues& live,
                             const ReachedElements* reached)
    : target_(&target),
      inputs_(std::move(inputs)),
      side_(ValueSide::kBase),
      reached_(reached),
      live_(live),
      tallied_(WindowCountOf(target.element_count())) {}

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
