// One rank's share of a publication, put into the store: wherever it was encoded, in host memory or on a device.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "payload/payload_writer.h"
#include "publish/ownership_plan.h"
#include "store/stream.h"

namespace xorbit {

// The payload first, then the receipt that says that it is there. `encoded` is of plan.owned; its base is D over these before
// the change. What comes back is what was written. Errors as of Stream::PutPayload and PutReceipt; the call may be made again.
Result<Payload> PutContribution(Stream& stream, const PublicationPlace& place, const RankPlan& plan, CodecId codec,
                                EncodedOwner encoded, std::vector<WitnessDigest> witnesses, int threads);

}  // namespace xorbit
