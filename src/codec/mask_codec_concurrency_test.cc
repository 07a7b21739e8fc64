// Threads in the mask codecs: they never show in the bytes, and one decoder serves several of them.
#include <gtest/gtest.h>

#include <atomic>

#include "base/parallel.h"
#include "codec/mask_codec.h"
#include "codec/segment_image.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

// Several stretches, each of several frames, and several outer chunks; frames and windows do not meet.
struct Workload {
  Workload() : map(OneTensorMap(2, 9'000'000)) {
    Random random(11);
    changes = UniformChanges(random, 2, map.element_count(), 20'000, false);
  }
  EncodedSegment Encode(const Codec& codec, int threads) const {
    const ListSource source(2, map.element_count(), changes, true);
    return codec.Encode(map, {{TensorKeyOf("w")}}, source, {.threads = threads, .frame_bytes = 700'000}).value();
  }

  SegmentMap map;
  std::vector<ElementChange> changes;
};

TEST(MaskCodecConcurrency, BytesDoNotDependOnThreads) {
  const Workload workload;
  for (const Codec* codec : MaskCodecs()) {
    const SegmentImage one(workload.Encode(*codec, 1));
    for (const int threads : {2, 5}) {
      const SegmentImage several(workload.Encode(*codec, threads));
      EXPECT_EQ(several.records, one.records) << codec->name();
      EXPECT_EQ(several.outer, one.outer) << codec->name();
      EXPECT_EQ(several.body, one.body) << codec->name();
    }
  }
}

TEST(MaskCodecConcurrency, OneDecoderServesSeveralThreads) {
  const Workload workload;
  for (const Codec* codec : MaskCodecs()) {
    const SegmentImage image(workload.Encode(*codec, 2));
    const auto decoder = codec->Open(workload.map, image.view()).value();
    std::atomic<uint64_t> change_count{0};
    const Status status = ParallelFor(4, decoder->record_count(), [&](uint64_t index) -> Status {
      DecodedRecord record;
      XORBIT_RETURN_IF_ERROR(decoder->Decode(index, &record));
      change_count += record.count;
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(change_count, workload.changes.size());
  }
}

}  // namespace
}  // namespace xorbit
