// The pause on one core: apply of changes to 100 million BF16 weights, 1 % of them or 6 %, laid out live in one piece or in
// many, from encoded records, from a localised log, from an undo log, and from whichever of them is the default. Items are
// changes.
//
// Pieces are laid end to end in a random order. `tensors` says whether they are pieces of one tensor or tensors of their own.
// 1 % of 200,000 pieces are 5 changes a piece, which is as short as pieces get; 6 % are the least for which the default has no
// room for a log.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "codec/change_digest.h"
#include "codec/sparse_test_util.h"
#include "payload/payload_writer.h"
#include "tensor/live_memory.h"
#include "window_source.h"

namespace xorbit {
namespace {

constexpr uint64_t kElementCount = 100'000'000;

enum Form : int64_t { kDecode, kLocalised, kUndoLog, kDefault };

Layout MakeLayout(uint64_t tensor_count) {
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    const uint64_t count = kElementCount * (i + 1) / tensor_count - kElementCount * i / tensor_count;
    std::string digits = std::to_string(i);
    digits.insert(0, 8 - digits.size(), '0');
    tensors.push_back({.name = "experts." + digits + ".weight", .dtype = Dtype::kBF16, .shape = {count}});
  }
  return Layout::Make(std::move(tensors)).value();
}

// All tensors in one region, cut into pieces that follow each other in a random order.
LiveMap MakeMap(const Layout& layout, uint64_t piece_count) {
  LiveMapSpec spec;
  ClassTable classes;
  spec.regions.push_back({"all", kElementCount * 2});
  const uint64_t tensor_count = layout.tensors().size();
  const uint64_t per_tensor = piece_count / tensor_count;
  for (uint32_t t = 0; t < tensor_count; ++t) {
    const uint64_t units = layout.tensors()[t].unit_count();
    for (uint64_t i = 0; i < per_tensor; ++i) {
      const uint64_t first = units * i / per_tensor;
      const LiveDigit digit{units * (i + 1) / per_tensor - first, 1, 1};
      spec.pieces.push_back(
          {.tensor_index = t, .class_index = classes.Intern(MakePieceClass(16, {&digit, 1}).value()), .origin = first});
    }
  }
  spec.classes = std::move(classes).Take();
  std::vector<size_t> order(spec.pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Random random(2);
  std::shuffle(order.begin(), order.end(), random);
  uint64_t at = 0;
  for (const size_t i : order) {
    spec.pieces[i].live_origin = at;
    at += spec.classes[spec.pieces[i].class_index].granule_count();
  }
  return LiveMap::Make(layout, std::move(spec)).value();
}

// A payload without digests would skip the comparison, so values are those of a live memory of zeros.
Buffer MakePayload(const Layout& layout, const SegmentMap& map, uint64_t percent) {
  std::vector<ElementChange> changes;
  Random random(1);
  std::geometric_distribution<uint64_t> gap(static_cast<double>(percent) / 100);
  for (uint64_t e = gap(random); e < kElementCount; e += 1 + gap(random)) {
    changes.push_back({e, 0, uint64_t{1} << random() % 16});
  }
  const WindowSource source(2, kElementCount, changes);
  std::vector<EncodedSegment> segments;
  segments.push_back(FindCodec(CodecId::kSparse)->Encode(map, TensorKeysOf(layout), source, {}).value());
  const Payload payload = WritePayload(layout, {}, {map}, std::move(segments), 1).value();
  Buffer bytes = payload.head;
  for (const Buffer& piece : payload.body) AppendBytes(bytes, piece);
  return bytes;
}

// A delta and the memory it goes to.
struct World {
  World(uint64_t piece_count, uint64_t tensor_count, uint64_t percent)
      : layout(MakeLayout(tensor_count)),
        bytes(MakePayload(layout, Whole(layout), percent)),
        map(MakeMap(layout, piece_count)) {}

  static SegmentMap Whole(const Layout& layout) {
    std::vector<Part> parts;
    for (uint32_t t = 0; t < layout.tensors().size(); ++t) parts.push_back(WholeTensor(layout, t));
    return SegmentMap::Make(layout, 2, 0, std::move(parts)).value();
  }

  Layout layout;
  Buffer bytes;
  LiveMap map;
  PayloadView view = ParsePayload(layout, bytes).value();
  Buffer live = Buffer(kElementCount * 2);
};

// The one of the last call, if it is the same: making one takes longer than measuring it.
World& WorldOf(uint64_t piece_count, uint64_t tensor_count, uint64_t percent) {
  static std::array<uint64_t, 3> key;
  static std::unique_ptr<World> world;
  if (const std::array wanted{piece_count, tensor_count, percent}; world == nullptr || key != wanted) {
    world.reset();
    world = std::make_unique<World>(piece_count, tensor_count, percent);
    key = wanted;
  }
  return *world;
}

void ApplyUpdate(benchmark::State& state) {
  World& world = WorldOf(static_cast<uint64_t>(state.range(0)), static_cast<uint64_t>(state.range(1)),
                         static_cast<uint64_t>(state.range(2)));
  const MutableBytes region(world.live);
  PrepareOptions options;
  const int64_t form = state.range(3);
  options.keep_undo_log = form == kUndoLog;
  if (form != kDefault) options.localise_budget_bytes = form == kLocalised ? uint64_t{1} << 30 : 0;
  const auto backend = MakeCpuBackend();
  const auto update = backend->Prepare(world.layout, {&world.view, 1}, {&world.map, {&region, 1}, {}}, options).value();
  for (auto _ : state) {
    if (!update->Apply().ok()) state.SkipWithError("refused");
    state.PauseTiming();
    if (!update->Undo().ok()) state.SkipWithError("refused");
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * update->report().change_count));
  state.counters["staged_bytes"] = static_cast<double>(update->report().staged_bytes);
}
void Cases(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"pieces", "tensors", "percent", "form"})->Unit(benchmark::kMillisecond);
  for (const auto& [pieces, tensors] : {std::pair{1, 1}, {200'000, 1}, {200'000, 200'000}}) {
    for (const int64_t form : {kDecode, kLocalised, kUndoLog, kDefault}) bench->Args({pieces, tensors, 1, form});
    for (const int64_t form : {kDecode, kLocalised, kUndoLog, kDefault}) bench->Args({pieces, tensors, 6, form});
  }
}
BENCHMARK(ApplyUpdate)->Apply(Cases);

}  // namespace
}  // namespace xorbit
