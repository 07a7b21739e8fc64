#include "receive/device_weights.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"

namespace xorbit {
namespace {

constexpr uint64_t kAlignment = 256;

// What of the tensors, which begin at these offsets, lies in a chunk.
void CopyInto(std::span<const ConstBytes> tensors, std::span<const uint64_t> offsets, uint64_t chunk_offset,
              MutableBytes chunk) {
  std::memset(chunk.data(), 0, chunk.size());
  const uint64_t chunk_end = chunk_offset + chunk.size();
  size_t i = static_cast<size_t>(std::ranges::upper_bound(offsets, chunk_offset) - offsets.begin());
  for (i = i > 0 ? i - 1 : 0; i < tensors.size() && offsets[i] < chunk_end; ++i) {
    const uint64_t begin = std::max(offsets[i], chunk_offset);
    const uint64_t end = std::min(offsets[i] + tensors[i].size(), chunk_end);
    if (begin < end) std::memcpy(chunk.data() + (begin - chunk_offset), tensors[i].data() + (begin - offsets[i]), end - begin);
  }
}

}  // namespace

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::Load(const Layout& layout, std::span<const ConstBytes> tensors,
                                                           int device, int threads) {
  std::vector<uint64_t> offsets;
  uint64_t byte_count = 0;
  for (const ConstBytes tensor : tensors) {
    offsets.push_back(byte_count);
    byte_count += DivideRoundUp(tensor.size(), kAlignment) * kAlignment;
  }
  std::unique_ptr<DeviceWeights> weights(new DeviceWeights(layout));  // tidy-allow: private
  XORBIT_ASSIGN_OR_RETURN(weights->memory_, AllocateDeviceMemory(device, byte_count));
  const auto make = [&](uint64_t offset, MutableBytes chunk) { CopyInto(tensors, offsets, offset, chunk); };
  XORBIT_RETURN_IF_ERROR(UploadToDevice(*weights->memory_, make, threads));
  for (size_t i = 0; i < tensors.size(); ++i) {
    weights->regions_.push_back(weights->memory_->bytes().subspan(offsets[i], tensors[i].size()));
  }
  weights->live_ = {&weights->map_, weights->regions_, {}};
  return weights;
}

}  // namespace xorbit
