// One trainer rank: compares what it holds with what was published last, and puts the difference into the store.
//
//   Contribute: diff | encode | payload -> store | receipt -> store        every rank, at the same publication
//   Seal + Decide (publish/decide.h)                                       any one of them, or several
//   Settle: the baseline moves, if it was this publication that won        every rank
//
// Ranks are threads or processes; they meet in the store alone. Nothing but the decision moves a baseline, so a failed, lost or
// repeated publication costs its bytes and no more.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/stage_timer.h"
#include "payload/delta.h"
#include "publish/baseline.h"
#include "publish/ownership_plan.h"
#include "store/stream.h"

namespace xorbit {

struct PublishOptions {
  CodecId codec = CodecId::kSparse;
  EncodeOptions encode;  // its threads are used for everything
  StageTimers* timers = nullptr;
};

// Movable; one thread at a time. Stream and backend must outlive it.
class RankPublisher {
 public:
  // `served` are the canonical tensors of version 0, read from the served checkpoint's files and never from the trainer: what a
  // trainer exports is often not what its samplers loaded, and the first publication is that difference. Copies the rank's
  // share: the only extra copy of its weights that a publisher keeps.
  static RankPublisher Make(Stream& stream, const Backend& backend, RankPlan plan, TensorBytes served, PublishOptions options);

  // The version of the baseline.
  uint64_t version() const { return version_; }
  const RankPlan& plan() const { return *plan_; }
  // D over what the rank owns at that version, both lanes, once it has published from it: scanned by the first publication,
  // whose sealing proves it, and brought forward by every later one.
  const std::optional<StateDigest>& digest() const { return baseline_.digest(); }

  // Puts this rank's payload and receipt of a publication from the baseline's version into the store. `held[i]` are the bytes
  // of the rank's declared part i, end to end; read only, and only during the call. An update without changes is a payload like
  // any other. kUsage for lengths that are not the parts' or another base version; kExists if this rank gave a receipt for
  // other weights to this publication (use a new id); kRefused if the stream was rewritten and the baseline is none of its
  // versions any more. After an error, the same call may be made again.
  Status Contribute(const PublicationPlace& place, std::span<const ConstBytes> held);

  // The same for a rank that has whole tensors at hand: `tensors` are the canonical bytes, in layout order.
  Status ContributeTensors(const PublicationPlace& place, TensorBytes tensors);

  // Puts this rank's share of a fold into the store: everything that `chain`, fetched and in order, changes from
  // place.base_version to the baseline's version, with the baseline lending the values for digests. With the owners of the
  // direct delta the payload equals that one's. Seal the fold with Stream::Seal, like any publication; nothing is decided.
  Status ContributeFold(const PublicationPlace& place, CodecId codec, const std::vector<Delta>& chain);

  // Follows a decision that was not this rank's, or a stream that it joins: takes what `chain`, fetched and in order, changes
  // from the baseline's version to `version`. kUsage while a contribution waits for Settle(). After an error the baseline may
  // be neither version: make the publisher anew.
  Status CatchUp(uint64_t version, const std::vector<Delta>& chain);

  // Takes the decision on the last contribution's version. True if that publication won: the baseline has moved to it. False if
  // not: the baseline stays, and CatchUp() follows the version that was decided instead.
  Result<bool> Settle(const VersionRecord& decided);

 private:
  struct Pending {
    PublicationPlace place;
    Buffer payload;
  };

  RankPublisher(Stream& stream, const Backend& backend, RankPlan plan, PublishOptions options);
  Status RequireVersion(uint64_t version, std::string_view purpose) const;
  // Payload, then receipt.
  Result<Payload> Store(const PublicationPlace& place, CodecId codec, EncodedOwner encoded,
                        std::vector<WitnessDigest> witnesses);
  Status ContributeBytes(const PublicationPlace& place, std::span<const SegmentBytes> owned,
                         std::span<const SegmentBytes> shared);
  std::vector<WitnessDigest> Witness(std::span<const SegmentBytes> shared) const;

  Stream* stream_;
  const Backend* backend_;
  std::unique_ptr<RankPlan> plan_;  // does not move, for the baseline refers to its maps
  PublishOptions options_;
  uint64_t version_ = 0;
  StateDigest state_;  // of that version, when the baseline came to it
  Baseline baseline_;
  std::optional<Pending> pending_;
};

}  // namespace xorbit
