#include "backend/decoded_chain.h"

#include "backend/named_decoder.h"

namespace xorbit {

Result<std::unique_ptr<SegmentDecoder>> OpenSegment(const Backend& backend, const Delta& delta, size_t owner,
                                                    const PayloadSegment& segment) {
  const std::string file = (delta.folder / delta.manifest.owners[owner].file).string();
  auto decoder = backend.Open(delta.payloads[owner], segment);
  if (!decoder.ok()) return decoder.status().WithContext(file);
  return std::unique_ptr<SegmentDecoder>(std::make_unique<NamedDecoder>(std::move(decoder).value(), file));
}

Result<DecodedChain> DecodedChain::Open(const Backend& backend, const std::vector<Delta>& chain) {
  DecodedChain decoded;
  for (const Delta& delta : chain) {
    for (size_t owner = 0; owner < delta.payloads.size(); ++owner) {
      const PayloadView& payload = delta.payloads[owner];
      for (const PayloadSegment& segment : payload.segments) {
        XORBIT_ASSIGN_OR_RETURN(auto decoder, OpenSegment(backend, delta, owner, segment));
        decoded.entries_.push_back({&segment.map, std::move(decoder)});
        decoded.reached_->Add(segment.map, *decoded.entries_.back().decoder);
      }
    }
  }
  decoded.reached_->Seal();
  return decoded;
}

std::unique_ptr<DecodedSource> DecodedChain::Into(const SegmentMap& target, ValueSide side,
                                                  std::optional<SegmentBytes> values) const {
  std::vector<DecodedInput> inputs;
  for (const Entry& entry : entries_) {
    if (entry.map->unit_bytes() == target.unit_bytes()) inputs.push_back({entry.map, entry.decoder.get()});
  }
  return std::make_unique<DecodedSource>(target, std::move(inputs), side, std::move(values), reached_.get());
}

}  // namespace xorbit
