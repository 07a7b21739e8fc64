// Whatever form an owner's bytes have, every run of a segment must lead to the bytes of the same canonical elements.
#include "tensor/segment_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

// The elements of a segment end to end.
Buffer Gather(const SegmentMap& map, const SegmentBytes& bytes) {
  Buffer image;
  RunWalker walker(map, 0, map.element_count());
  Run run;
  while (walker.Next(&run)) {
    const ConstBytes piece = bytes.Of(run);
    image.insert(image.end(), piece.begin(), piece.end());
  }
  return image;
}

TEST(SegmentBytes, PartsAndImagesHoldWhatTheTensorsHold) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    const Layout layout = RandomLayout(random, 8, 2'000);
    const RandomTensors tensors(random, layout);
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      const Buffer image = Gather(map, SegmentBytes::InTensors(map, tensors.bytes()));
      ASSERT_EQ(image.size(), map.byte_count());
      EXPECT_EQ(Gather(map, SegmentBytes::InImage(map, image)), image);
      std::vector<Buffer> parts;
      for (size_t i = 0; i < map.parts().size(); ++i) {
        const auto begin = image.begin() + static_cast<ptrdiff_t>(map.part_start(i) * map.unit_bytes());
        parts.emplace_back(begin, begin + static_cast<ptrdiff_t>(map.parts()[i].element_count() * map.unit_bytes()));
      }
      EXPECT_EQ(Gather(map, SegmentBytes::InParts(map, std::vector<ConstBytes>(parts.begin(), parts.end())).value()), image);
    }
  }
}

TEST(SegmentBytes, PartsMustHaveTheirLengths) {
  TensorSpec tensor;
  tensor.name = "w";
  tensor.dtype = Dtype::kBF16;
  tensor.shape = {8};
  const Layout layout = Layout::Make({tensor}).value();
  const SegmentMap map = SegmentMap::Make(layout, 2, 0, {WholeTensor(layout, 0)}).value();
  const Buffer bytes(14);
  const std::vector<ConstBytes> parts = {bytes};
  EXPECT_EQ(SegmentBytes::InParts(map, parts).status().message(), "part 0 has 16 bytes, but 14 were given");
  EXPECT_EQ(SegmentBytes::InParts(map, {}).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace xorbit
