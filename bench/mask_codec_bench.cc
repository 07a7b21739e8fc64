// The mask codecs on the reference workload: 64 MiB of mask in which 0.085 % of the bytes change, independently, by one flipped
// bit, by one FP4-like nibble, or to any other byte. Prints bytes scaled to the 445 GB of the articles (head sections counted),
// and changes a second of one core with digests on. Arguments: codec (order of MaskCodecs), kind of change, Zstd level.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "change/list_source.h"
#include "codec/mask_codec.h"
#include "codec/mask_format.h"
#include "codec/mask_inner.h"
#include "codec/zstd_frame.h"
#include "window_source.h"

namespace xorbit {
namespace {

constexpr uint64_t kMaskBytes = uint64_t{64} << 20;
constexpr double kReferenceBytes = 445e9;
constexpr double kDensity = 0.00085;

enum Kind : int64_t { kOneBit, kNibble, kRandomByte };
constexpr std::string_view kKindNames[] = {"one-bit", "nibble", "random-byte"};

// FP4-like: XOR values of neighbouring E2M1 codes, in either nibble; 2.30 bits of entropy.
uint8_t NibbleXor(std::mt19937_64& random) {
  constexpr uint8_t kXors[] = {1, 1, 1, 1, 3, 3, 7, 1};
  return static_cast<uint8_t>(kXors[random() % 8] << (random() % 2 * 4));
}

uint8_t XorOf(Kind kind, std::mt19937_64& random) {
  switch (kind) {
    case kOneBit:
      return static_cast<uint8_t>(1 << random() % 8);
    case kNibble:
      return NibbleXor(random);
    default:
      return static_cast<uint8_t>(1 + random() % 255);
  }
}

struct Workload {
  Layout layout;
  SegmentMap map;
  std::vector<uint64_t> tensor_keys;
  std::vector<ElementChange> changes;
};

Workload MakeWorkload(Kind kind) {
  std::mt19937_64 random(7);
  Workload workload;
  workload.layout = Layout::Make({{.name = "weight", .dtype = Dtype::kU8, .shape = {kMaskBytes}}}).value();
  workload.map = SegmentMap::Make(workload.layout, 1, 0, {WholeTensor(workload.layout, 0)}).value();
  workload.tensor_keys = {TensorKeyOf("weight")};
  std::geometric_distribution<uint64_t> gap(kDensity);
  for (uint64_t at = gap(random); at < kMaskBytes; at += 1 + gap(random)) {
    workload.changes.push_back({at, random() & 0xff, XorOf(kind, random)});
  }
  return workload;
}

uint64_t ByteCountOf(const EncodedSegment& segment) {
  uint64_t byte_count = segment.tables.size() + segment.records.size() + segment.outer.size();
  for (const Buffer& piece : segment.body) byte_count += piece.size();
  return byte_count;
}

uint64_t InnerBytesOf(const EncodedSegment& segment) {
  uint64_t byte_count = 0;
  for (uint64_t at = 0; at < segment.records.size(); at += sizeof(FrameRecord)) {
    byte_count += LoadLe<FrameRecord>(segment.records.data() + at).inner_bytes;
  }
  return byte_count;
}

void Report(const EncodedSegment& segment, const Workload& workload, benchmark::State& state) {
  const double scale = kReferenceBytes / static_cast<double>(kMaskBytes);
  state.counters["GB_of_445"] = static_cast<double>(ByteCountOf(segment)) * scale / 1e9;
  state.counters["inner_GB"] = static_cast<double>(InnerBytesOf(segment)) * scale / 1e9;
  state.counters["changes/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(workload.changes.size()), benchmark::Counter::kIsRate);
}

void Encode(benchmark::State& state) {
  const Codec* codec = MaskCodecs()[static_cast<size_t>(state.range(0))];
  const Workload workload = MakeWorkload(static_cast<Kind>(state.range(1)));
  const WindowSource source(1, kMaskBytes, workload.changes);
  const EncodeOptions options = {.zstd_level = static_cast<int>(state.range(2))};
  state.SetLabel(std::string(codec->name()) + " " + std::string(kKindNames[state.range(1)]));
  EncodedSegment segment;
  for (auto _ : state) segment = codec->Encode(workload.map, workload.tensor_keys, source, options).value();
  Report(segment, workload, state);
}
BENCHMARK(Encode)->ArgNames({"codec", "kind", "level"})->ArgsProduct({{0, 1}, {0, 1, 2}, {0}})->Unit(benchmark::kMillisecond);
BENCHMARK(Encode)
    ->ArgNames({"codec", "kind", "level"})
    ->ArgsProduct({{2, 3, 4}, {0, 1, 2}, {0, 1, 3, 5, 9}})
    ->Unit(benchmark::kMillisecond);

// The inner encoders alone, on the first MiB: what is left of Encode's time is collecting, digests, hashing and fresh memory.
void EncodeInner(benchmark::State& state) {
  const InnerCodec& codec = state.range(0) == 0 ? SnappyInner() : Lz4Inner();
  constexpr uint64_t kFrameBytes = uint64_t{1} << 20;
  std::vector<uint32_t> positions;
  Buffer values;
  for (const ElementChange& change : MakeWorkload(kRandomByte).changes) {
    if (change.element >= kFrameBytes) break;
    positions.push_back(static_cast<uint32_t>(change.element));
    values.push_back(static_cast<uint8_t>(change.xor_bits));
  }
  const SparseMask mask = {kFrameBytes, positions, values.data()};
  Buffer target(codec.MaxInnerBytes(kFrameBytes) + kInnerSlackBytes);
  Buffer scratch;
  state.SetLabel(state.range(0) == 0 ? "snappy" : "lz4");
  for (auto _ : state) benchmark::DoNotOptimize(codec.Encode(mask, 0, target.data(), &scratch).value());
  state.counters["changes/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(positions.size()), benchmark::Counter::kIsRate);
}
BENCHMARK(EncodeInner)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// Open (which undoes the outer stage) and decode of every record.
void Decode(benchmark::State& state) {
  const Codec* codec = MaskCodecs()[static_cast<size_t>(state.range(0))];
  const Workload workload = MakeWorkload(static_cast<Kind>(state.range(1)));
  const WindowSource source(1, kMaskBytes, workload.changes);
  const EncodedSegment segment = codec->Encode(workload.map, workload.tensor_keys, source, {}).value();
  Buffer body;
  for (const Buffer& piece : segment.body) AppendBytes(body, piece);
  const EncodedSegmentView view = {
      segment.has_digests, segment.record_count, segment.change_count, segment.tables, segment.records, segment.outer, body};
  state.SetLabel(std::string(codec->name()) + " " + std::string(kKindNames[state.range(1)]));
  DecodedRecord record;
  for (auto _ : state) {
    const auto decoder = codec->Open(workload.map, view).value();
    for (uint64_t i = 0; i < decoder->record_count(); ++i) {
      if (!decoder->Decode(i, &record).ok()) state.SkipWithError("does not decode");
    }
  }
  Report(segment, workload, state);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kMaskBytes));
}
BENCHMARK(Decode)->ArgNames({"codec", "kind"})->ArgsProduct({{0, 1, 2, 3, 4}, {0, 1, 2}})->Unit(benchmark::kMillisecond);

// What each rank of a host does for itself, undoing the outer stage into memory that it has; and what it would cost to do that
// once for all of them: the same bytes put into fresh shared memory.
void UndoOuter(benchmark::State& state) {
  const Codec* codec = MaskCodecs()[static_cast<size_t>(state.range(0))];
  const Workload workload = MakeWorkload(kOneBit);
  const WindowSource source(1, kMaskBytes, workload.changes);
  const EncodedSegment segment = codec->Encode(workload.map, workload.tensor_keys, source, {}).value();
  Buffer body;
  for (const Buffer& piece : segment.body) AppendBytes(body, piece);
  Buffer undone(InnerBytesOf(segment));
  const MutableBytes target(undone);
  const uint64_t chunk_count = segment.outer.size() / sizeof(OuterRecord);
  for (auto _ : state) {
    for (uint64_t i = 0; i < chunk_count; ++i) {
      const auto record = LoadLe<OuterRecord>(segment.outer.data() + i * sizeof(OuterRecord));
      const ConstBytes chunk = ConstBytes(body).subspan(record.offset, record.encoded_bytes);
      const Status status = DecompressZstdFrame(chunk, target.subspan(i * kOuterChunkBytes, record.inner_bytes));
      if (!status.ok()) state.SkipWithError("does not decode");
    }
  }
  state.SetLabel(std::string(codec->name()));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * undone.size()));
}
BENCHMARK(UndoOuter)->ArgNames({"codec"})->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond);

void WriteShared(benchmark::State& state) {
  const Buffer undone(uint64_t{64} << 20, 1);
  const std::string name = "/xorbit-mask-codec-bench-" + std::to_string(getpid());
  for (auto _ : state) {
    auto shared = SharedMemory::Create(name, undone.size());
    if (shared.ok()) std::ranges::copy(undone, shared->bytes().begin());
    if (!shared.ok() || !SharedMemory::Remove(name).ok()) state.SkipWithError("no shared memory");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * undone.size()));
}
BENCHMARK(WriteShared)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xorbit
