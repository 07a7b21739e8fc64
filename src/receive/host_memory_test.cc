// Loading must put every bit where the map places it, by the reckoning of the tests' own random memory, and HoldsTensors must
// notice any single wrong one.
#include "receive/host_memory.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "tensor/random_live_memory.h"

namespace xorbit {
namespace {

TEST(HostMemory, LoadsWhatTheMapPlaces) {
  Random random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    const Layout layout = RandomLayout(random, 6, 400);
    RandomTensors tensors(random, layout);
    LiveMapSpec spec = RandomLiveMap(random, layout).spec();
    PlaceShadows(random, layout, &spec);
    const LiveMap map = LiveMap::Make(layout, spec).value();
    RandomLiveMemory wanted(random, layout, map);
    for (const MutableBytes region : wanted.memory().regions) std::ranges::fill(region, uint8_t{0});
    wanted.Fill(tensors.bytes());
    HostMemory memory(layout, map);
    LoadTensors(memory.live(), tensors.bytes());
    for (size_t i = 0; i < map.regions().size(); ++i) {
      ASSERT_TRUE(std::ranges::equal(memory.live().regions[i], wanted.memory().regions[i])) << "region " << i;
    }
    EXPECT_TRUE(HoldsTensors(memory.live(), tensors.bytes()));
    RandomTensors other(random, layout);
    other.CopyFrom(tensors);
    other.Mutate(random, layout, 300);
    bool placed_change = false;  // a changed tensor that the map knows
    for (uint32_t t = 0; t < layout.tensors().size(); ++t) {
      if (std::ranges::equal(tensors.bytes()[t], other.bytes()[t])) continue;
      placed_change =
          placed_change || !map.pieces_of(t).empty() || std::ranges::find(map.kept_tensors(), t) != map.kept_tensors().end();
    }
    if (placed_change) {
      EXPECT_FALSE(HoldsTensors(memory.live(), other.bytes()));
    }
  }
}

}  // namespace
}  // namespace xorbit
