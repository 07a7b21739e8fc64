// Files of live maps, over one small layout. What is accepted must come out the same when it is written and read again, and the
// proofs and every search must end within their bounds.
#include <cstdlib>

#include "tensor/live_cursor.h"
#include "tensor/live_map_json.h"
#include "tensor/live_proofs.h"

namespace {

xorbit::TensorSpec Tensor(const char* name, xorbit::Dtype dtype, std::vector<uint64_t> shape, uint32_t group = 0) {
  xorbit::TensorSpec tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.group = group;
  return tensor;
}

const xorbit::Layout& TheLayout() {
  using xorbit::Dtype;
  static const xorbit::Layout layout =
      xorbit::Layout::Make({Tensor("a", Dtype::kBF16, {4, 8}), Tensor("b", Dtype::kBF16, {4, 8}), Tensor("c", Dtype::kF32, {6}),
                            Tensor("d", Dtype::kU8, {16}), Tensor("e", Dtype::kU8, {2}, 1),
                            Tensor("f", Dtype::kU8, {uint64_t{1} << 40, 1U << 20})},
                           {"model", "draft"})
          .value();
  return layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const xorbit::Layout& layout = TheLayout();
  const auto map = xorbit::ParseLiveMapJson(xorbit::AsText({data, size}), layout);
  if (!map.ok()) return 0;
  const std::string text = WriteLiveMapJson(layout, *map);
  const auto again = xorbit::ParseLiveMapJson(text, layout);
  if (!again.ok() || WriteLiveMapJson(layout, *again) != text) std::abort();
  const bool one_writer = ProveSingleWriter(layout, *map).ok();
  if (ProveSingleWriter(layout, *again).ok() != one_writer) std::abort();
  const xorbit::LiveMap* ranks[] = {&*map};
  (void)ProveCohortCoverage(layout, ranks);
  for (uint32_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
    const uint32_t bits = map->granule_bits(tensor);
    for (uint32_t track = 0; track < map->track_count(tensor); ++track) {
      xorbit::LiveCursor cursor(*map, tensor, track);
      for (uint64_t granule = 0; granule < 300; ++granule) {
        const xorbit::LiveRun& run = cursor.Find(granule);
        if (!run.holds(granule)) std::abort();
        if (!run.present()) continue;
        const uint64_t last = run.live_granule + run.granule_count - 1;
        if (last / 8 * bits + last % 8 * bits / 8 >= map->regions()[run.region_index].byte_count) std::abort();
      }
    }
  }
  return 0;
}
