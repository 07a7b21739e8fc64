// A baseline that takes changes when they are next read must be, to every reader, one that took them at once: same bytes, same
// payloads, same digest, whatever the codec, the threads, and the order in which it is read, forwarded and left where it is.
#include "publish/baseline.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/seed.h"
#include "change/list_source.h"
#include "payload/payload_writer.h"
#include "tensor/ownership.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

class BaselineTest : public testing::Test {
 protected:
  // Moves a random model through random versions, some of which are never decided.
  void FollowRandomVersions() {
    const Layout layout = RandomLayout(random_, 5, random_() % 3 == 0 ? 400'000 : 5'000);
    const std::vector<SegmentMap> maps = PlanOwners(layout, 1, Split::kWhole).value().front();
    RandomTensors published(random_, layout);
    RandomTensors weights(random_, layout);
    weights.CopyFrom(published);
    Baseline baseline = Baseline::CopyOf(maps, published.bytes(), 2);
    for (int step = 0; step < 6; ++step) {
      weights.Mutate(random_, layout, Between(random_, 0, 3) == 0 ? 0 : Between(random_, 1, 300));
      const CodecId codec = AllCodecs()[random_() % AllCodecs().size()]->id();
      EncodeOptions options;
      options.threads = static_cast<int>(Between(random_, 1, 3));
      options.frame_bytes = 8 * Between(random_, 128, 100'000);       // frames that meet within a window
      options.change_cache_bytes = random_() % 2 == 0 ? 0 : 100'000;  // windows that are read twice
      EncodedOwner direct = backend_
                                ->EncodeDiff(layout, maps, {.bytes = InTensors(maps, published.bytes())},
                                             InTensors(maps, weights.bytes()), codec, options)
                                .value();
      const auto encoded =
          backend_->EncodeDiff(layout, maps, baseline.state(), InTensors(maps, weights.bytes()), codec, options);
      ASSERT_TRUE(encoded.ok()) << encoded.status().message();
      EXPECT_EQ(encoded->base, direct.base);
      const Payload payload = WritePayload(layout, {codec, 0, 1}, maps, std::move(direct.segments), 1).value();
      const Payload same = WritePayload(layout, {codec, 0, 1}, maps, std::vector<EncodedSegment>(encoded->segments), 1).value();
      EXPECT_EQ(same.sha256, payload.sha256);
      baseline.set_digest(encoded->base);
      if (random_() % 3 == 0) continue;  // another publication was decided, or none
      ASSERT_TRUE(baseline.Forward(*backend_, layout, FileBytesOf(payload), 2).ok());
      published.CopyFrom(weights);
      if (random_() % 2 == 0) ExpectBytes(layout, maps, published, &baseline);
    }
    ExpectBytes(layout, maps, published, &baseline);
  }

  void ExpectBytes(const Layout& layout, const std::vector<SegmentMap>& maps, const RandomTensors& published,
                   Baseline* baseline) {
    ASSERT_TRUE(baseline->TakeDue(static_cast<int>(Between(random_, 1, 3))).ok());
    const std::vector<ConstBytes> tensors = published.bytes();
    for (size_t i = 0; i < maps.size(); ++i) {
      RunWalker walker(maps[i], 0, maps[i].element_count());
      for (xorbit::Run run; walker.Next(&run);) {
        const uint64_t unit_bytes = maps[i].unit_bytes();
        const ConstBytes expected =
            tensors[run.tensor_index].subspan(run.tensor_element * unit_bytes, run.element_count * unit_bytes);
        ASSERT_TRUE(std::ranges::equal(baseline->bytes()[i].Of(run), expected)) << "segment " << i;
      }
    }
    ASSERT_EQ(baseline->digest(), baseline->Scan(*backend_, layout, 1));
  }

  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(BaselineTest, TakingChangesLateIsTakingThemAtOnce) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 25; ++round) {
    ASSERT_NO_FATAL_FAILURE(FollowRandomVersions()) << "round " << round;
  }
}

TEST_F(BaselineTest, ChangesOfAnotherSourceLeaveTheDigestUnknown) {
  const Layout layout = Layout::Make({{.name = "w", .dtype = Dtype::kBF16, .shape = {100}}}).value();
  const std::vector<SegmentMap> maps = PlanOwners(layout, 1, Split::kWhole).value().front();
  const RandomTensors served(random_, layout);
  Baseline baseline = Baseline::CopyOf(maps, served.bytes(), 1);
  baseline.set_digest(baseline.Scan(*backend_, layout, 1));
  ASSERT_TRUE(baseline.Forward(0, ListSource(2, 100, {{.element = 7, .old_bits = 0, .xor_bits = 3}}, false), 1).ok());
  EXPECT_EQ(baseline.digest(), std::nullopt);
  EXPECT_EQ(baseline.bytes()[0].Of(RunAt(maps[0], 7)).front(), served.bytes()[0][14] ^ 3);
}

}  // namespace
}  // namespace xorbit
