#include "journey/decoded_delta.h"

namespace xorbit {

Result<DecodedChain> DecodedChain::Open(const Runtime& runtime, const std::vector<Delta>& chain) {
  DecodedChain decoded;
  for (const Delta& delta : chain) {
    for (size_t owner = 0; owner < delta.payloads.size(); ++owner) {
      const PayloadView& payload = delta.payloads[owner];
      for (const PayloadSegment& segment : payload.segments) {
        auto decoder = runtime.backend->Open(payload, segment);
        if (!decoder.ok()) return decoder.status().WithContext((delta.folder / delta.manifest.owners[owner].file).string());
        decoded.entries_.push_back({&segment.map, std::move(decoder).value()});
      }
    }
  }
  return decoded;
}

std::unique_ptr<DecodedSource> DecodedChain::Into(const SegmentMap& target, ValueSide side,
                                                  std::span<const ConstBytes> tensor_bytes) const {
  std::vector<DecodedInput> inputs;
  for (const Entry& entry : entries_) {
    if (entry.map->unit_bytes() == target.unit_bytes()) inputs.push_back({entry.map, entry.decoder.get()});
  }
  return std::make_unique<DecodedSource>(target, std::move(inputs), side, tensor_bytes);
}

}  // namespace xorbit
