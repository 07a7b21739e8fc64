// The sparse codec on one core, at every CPU level: changes a second (items_per_second), digests on.
//
// Encoding starts from a list of changes in memory; the source copies them out window by window, which is part of the
// measurement.
#include <benchmark/benchmark.h>

#include "backend/cpu/cpu_codec.h"
#include "codec/sparse_test_util.h"
#include "window_source.h"

namespace xorbit {
namespace {

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
    keys = TensorKeysOf(OneTensorLayout(unit_bytes, element_count));
    Random random(1);
    std::geometric_distribution<uint64_t> gap(static_cast<double>(per_million) / 1e6);
    for (uint64_t e = gap(random); e < element_count; e += 1 + gap(random)) {
      changes.push_back(RandomChange(random, unit_bytes, e, state.range(3) != 0));
    }
  }
};

void Report(benchmark::State& state, const Workload& work, const SegmentImage& segment) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * work.changes.size()));
  state.counters["bits_per_change"] = static_cast<double>(segment.byte_count()) * 8 / static_cast<double>(work.changes.size());
  state.SetLabel(std::string(NameOf(AvailableCpuLevels()[static_cast<size_t>(state.range(0))])));
}

void EncodeSparse(benchmark::State& state) {
  const Workload work(state);
  const WindowSource source(work.map.unit_bytes(), work.element_count, work.changes);
  for (auto _ : state) benchmark::DoNotOptimize(work.codec->Encode(work.map, work.keys, source, {}));
  Report(state, work, SegmentImage(work.codec->Encode(work.map, work.keys, source, {}).value()));
}

void DecodeSparse(benchmark::State& state) {
  const Workload work(state);
  const WindowSource source(work.map.unit_bytes(), work.element_count, work.changes);
  const SegmentImage segment(work.codec->Encode(work.map, work.keys, source, {}).value());
  const auto decoder = work.codec->Open(work.map, segment.view()).value();
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
