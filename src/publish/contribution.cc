#include "publish/contribution.h"

#include <utility>

namespace xorbit {
namespace {

Sha256Digest PartsDigestOf(const Layout& layout, std::span<const SegmentMap> maps) {
  std::vector<const SegmentMap*> pointers;
  for (const SegmentMap& map : maps) pointers.push_back(&map);
  return PartsDigest(layout, pointers);
}

}  // namespace

Result<Payload> PutContribution(Stream& stream, const PublicationPlace& place, const RankPlan& plan, CodecId codec,
                                EncodedOwner encoded, std::vector<WitnessDigest> witnesses, int threads) {
  XORBIT_ASSIGN_OR_RETURN(Payload payload, WritePayload(stream.layout(), {codec, plan.owner_index, plan.owner_count},
                                                        plan.owned, std::move(encoded.segments), threads));
  Receipt receipt;
  receipt.place = place;
  receipt.owner_index = plan.owner_index;
  receipt.owner_count = plan.owner_count;
  receipt.codec = codec;
  receipt.has_digests = payload.has_digests;
  receipt.owner = ManifestOwnerOf(payload);
  receipt.base_part = encoded.base;
  receipt.parts_sha256 = PartsDigestOf(stream.layout(), plan.owned);
  receipt.witnesses = std::move(witnesses);
  XORBIT_RETURN_IF_ERROR(stream.PutPayload(place, payload));
  XORBIT_RETURN_IF_ERROR(stream.PutReceipt(receipt));
  return payload;
}

}  // namespace xorbit
