#include "delta/merged_source.h"

#include <array>
#include <bit>
#include <cassert>
#include <string>
#include <utility>

namespace xorbit {
namespace {

// Merges with elements as numbers of type T.
template <typename T>
class MergedCursor : public ChangeCursor {
 public:
  MergedCursor(const MergedSource& source, uint64_t first_window, uint64_t window_count)
      : source_(&source), window_index_(first_window), xors_(kWindowElements) {
    bool any_values = false;
    for (const ChangeSource* input : source.sources()) {
      cursors_.push_back(input->Open(first_window, window_count));
      any_values = any_values || input->has_values();
    }
    input_.Reserve(sizeof(T), any_values);
  }

  Status Next(WindowChanges* changes) override {
    for (const auto& cursor : cursors_) {
      XORBIT_RETURN_IF_ERROR(cursor->Next(&input_));
      Accumulate();
    }
    Emit(changes);
    const uint64_t window_elements = WindowElementsAt(source_->element_count(), window_index_);
    if (changes->count > 0 && changes->positions[changes->count - 1] >= window_elements) {
      return CorruptError("a change lies past the end of its segment");
    }
    if (source_->has_values()) LookUpOlds(changes);
    ++window_index_;
    return {};
  }

 private:
  void Accumulate() {
    for (uint32_t i = 0; i < input_.count; ++i) {
      const uint16_t position = input_.positions[i];
      xors_[position] ^= LoadLe<T>(input_.xors.data() + size_t{i} * sizeof(T));
      touched_[position / 64] |= uint64_t{1} << (position % 64);
    }
  }

  // Moves what did not cancel to `changes` and leaves the accumulator clear.
  void Emit(WindowChanges* changes) {
    uint32_t count = 0;
    for (uint32_t word = 0; word < touched_.size(); ++word) {
      for (uint64_t bits = std::exchange(touched_[word], 0); bits != 0; bits &= bits - 1) {
        const uint32_t position = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
        const T x = std::exchange(xors_[position], T{0});
        changes->positions[count] = static_cast<uint16_t>(position);
        StoreLe<T>(changes->xors.data() + size_t{count} * sizeof(T), x);
        count += x != 0 ? 1 : 0;
      }
    }
    changes->count = count;
  }

  void LookUpOlds(WindowChanges* changes) {
    const FoldValues& values = source_->values();
    for (uint32_t i = 0; i < changes->count; ++i) {
      const uint64_t element = window_index_ * kWindowElements + changes->positions[i];
      if (element - run_.segment_element >= run_.element_count) run_ = RunAt(*values.map, element);
      const uint64_t tensor_element = run_.tensor_element + (element - run_.segment_element);
      const T value = LoadLe<T>(values.tensors[run_.tensor_index].data() + tensor_element * sizeof(T));
      const T x = LoadLe<T>(changes->xors.data() + size_t{i} * sizeof(T));
      const T old = values.side == FoldValues::Side::kBase ? value : static_cast<T>(value ^ x);
      StoreLe<T>(changes->olds.data() + size_t{i} * sizeof(T), old);
    }
  }

  const MergedSource* source_;
  uint64_t window_index_;
  std::vector<std::unique_ptr<ChangeCursor>> cursors_;  // in the order of source_->sources()
  WindowChanges input_;                                 // one source's window at a time
  std::vector<T> xors_;                                 // by position; zero between windows
  std::array<uint64_t, kWindowElements / 64> touched_{};
  Run run_;  // the run that held the last looked-up element
};

}  // namespace

Result<std::unique_ptr<MergedSource>> MergedSource::Make(std::vector<const ChangeSource*> sources, const FoldValues* values) {
  if (sources.empty()) return UsageError("a fold needs at least one delta");
  const uint32_t unit_bytes = sources.front()->unit_bytes();
  const uint64_t element_count = sources.front()->element_count();
  for (const ChangeSource* source : sources) {
    if (source->unit_bytes() == unit_bytes && source->element_count() == element_count) continue;
    return RefusedError("only deltas whose owners hold the same parts can be folded: one segment has " +
                        std::to_string(element_count) + " elements of " + std::to_string(unit_bytes) + " bytes, another " +
                        std::to_string(source->element_count()) + " of " + std::to_string(source->unit_bytes()));
  }
  if (values != nullptr) {
    assert(values->map->unit_bytes() == unit_bytes && values->map->element_count() == element_count);
  }
  const FoldValues kept = values != nullptr ? *values : FoldValues{};
  return std::unique_ptr<MergedSource>(new MergedSource(std::move(sources), kept));
}

MergedSource::MergedSource(std::vector<const ChangeSource*> sources, const FoldValues& values)
    : sources_(std::move(sources)), values_(values) {}

std::unique_ptr<ChangeCursor> MergedSource::Open(uint64_t first_window, uint64_t window_count) const {
  assert(first_window + window_count <= WindowCountOf(element_count()));
  switch (unit_bytes()) {
    case 1:
      return std::make_unique<MergedCursor<uint8_t>>(*this, first_window, window_count);
    case 2:
      return std::make_unique<MergedCursor<uint16_t>>(*this, first_window, window_count);
    case 4:
      return std::make_unique<MergedCursor<uint32_t>>(*this, first_window, window_count);
    default:
      return std::make_unique<MergedCursor<uint64_t>>(*this, first_window, window_count);
  }
}

}  // namespace xorbit
