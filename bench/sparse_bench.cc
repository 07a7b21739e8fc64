// The sparse codec on one core, at every CPU level: changes a second (items_per_second), digests on.
//
// Encoding starts from a list of changes in memory; the source copies them out window by window, which is part of the
// measurement.
#include <benchmark/benchmark.h>

#include <cstring>

#include "backend/cpu/cpu_codec.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

// Changes in the form in which a diff delivers them, window by window, so that the source's own cost is a copy.
class WindowListSource : public ChangeSource {
 public:
  WindowListSource(uint32_t unit_bytes, uint64_t element_count, const std::vector<ElementChange>& changes)
      : unit_bytes_(unit_bytes), element_count_(element_count), windows_(WindowCountOf(element_count)) {
    for (const ElementChange& change : changes) {
      WindowChanges& window = windows_[change.element / kWindowElements];
      window.positions.push_back(static_cast<uint16_t>(change.element % kWindowElements));
      const auto append = [&](uint64_t bits, std::vector<uint8_t>* target) {
        for (uint32_t b = 0; b < unit_bytes; ++b) target->push_back(static_cast<uint8_t>(bits >> (8 * b)));
      };
      append(change.xor_bits, &window.xors);
      append(change.old_bits, &window.olds);
      ++window.count;
    }
  }
  uint32_t unit_bytes() const override { return unit_bytes_; }
  uint64_t element_count() const override { return element_count_; }
  bool has_values() const override { return true; }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t /*window_count*/) const override {
    return std::make_unique<Cursor>(&windows_[first_window]);
  }

 private:
  class Cursor : public ChangeCursor {
   public:
    explicit Cursor(const WindowChanges* window) : window_(window) {}
    Status Next(WindowChanges* changes) override {
      changes->count = window_->count;
      std::copy(window_->positions.begin(), window_->positions.end(), changes->positions.begin());
      std::copy(window_->xors.begin(), window_->xors.end(), changes->xors.begin());
      std::copy(window_->olds.begin(), window_->olds.end(), changes->olds.begin());
      ++window_;
      return {};
    }

   private:
    const WindowChanges* window_;
  };

  uint32_t unit_bytes_;
  uint64_t element_count_;
  std::vector<WindowChanges> windows_;
};

// Arguments: level (index into AvailableCpuLevels), unit bytes, changes per million elements, one-bit flips or random values.
struct Workload {
  const Codec* codec;
  uint64_t element_count;
  SegmentMap map;
  std::vector<uint64_t> keys;
  std::vector<ElementChange> changes;

  explicit Workload(const benchmark::State& state) {
    const auto level = AvailableCpuLevels()[static_cast<size_t>(state.range(0))];
    const auto unit_bytes = static_cast<uint32_t>(state.range(1));
    const auto per_million = static_cast<uint64_t>(state.range(2));
    codec = CpuCodec(CodecId::kSparse, level);
    element_count = uint64_t{1000000} * 1000000 / per_million;  // a million changes
    map = OneTensorMap(unit_bytes, element_count);
    keys = KeysOf(OneTensorLayout(unit_bytes, element_count));
    Random random(1);
    std::geometric_distribution<uint64_t> gap(static_cast<double>(per_million) / 1e6);
    for (uint64_t e = gap(random); e < element_count; e += 1 + gap(random)) {
      changes.push_back(RandomChange(random, unit_bytes, e, state.range(3) != 0));
    }
  }
};

void Report(benchmark::State& state, const Workload& work, const ReaderSegment& segment) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * work.changes.size()));
  state.counters["bits_per_change"] = static_cast<double>(segment.byte_count()) * 8 / static_cast<double>(work.changes.size());
  state.SetLabel(std::string(NameOf(AvailableCpuLevels()[static_cast<size_t>(state.range(0))])));
}

void EncodeSparse(benchmark::State& state) {
  const Workload work(state);
  const WindowListSource source(work.map.unit_bytes(), work.element_count, work.changes);
  for (auto _ : state) benchmark::DoNotOptimize(work.codec->Encode(work.map, work.keys, source, {}));
  Report(state, work, ReaderSegment(work.codec->Encode(work.map, work.keys, source, {}).value()));
}

void DecodeSparse(benchmark::State& state) {
  const Workload work(state);
  const WindowListSource source(work.map.unit_bytes(), work.element_count, work.changes);
  const ReaderSegment segment(work.codec->Encode(work.map, work.keys, source, {}).value());
  const auto decoder = work.codec->Open(work.map, segment.view(), 1).value();
  DecodedRecord record;
  for (auto _ : state) {
    for (uint64_t i = 0; i < decoder->record_count(); ++i) {
      if (!decoder->Decode(i, &record).ok()) state.SkipWithError("refused its own bytes");
      benchmark::DoNotOptimize(record.xors.data());
    }
  }
  Report(state, work, segment);
}

void Cases(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"level", "unit", "per_million", "one_bit"})->Unit(benchmark::kMillisecond);
  for (size_t level = 0; level < AvailableCpuLevels().size(); ++level) {
    bench->Args({static_cast<int64_t>(level), 1, 850, 1});
    bench->Args({static_cast<int64_t>(level), 1, 850, 0});
    for (const int64_t unit_bytes : {2, 4, 8}) bench->Args({static_cast<int64_t>(level), unit_bytes, 10000, 1});
    bench->Args({static_cast<int64_t>(level), 2, 900000, 1});
  }
}
BENCHMARK(EncodeSparse)->Apply(Cases);
BENCHMARK(DecodeSparse)->Apply(Cases);

}  // namespace
}  // namespace xorbit
