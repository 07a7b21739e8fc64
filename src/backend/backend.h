// What a backend does for the journey, on host memory (backend/cpu) or device memory (backend/cuda). One instance may be used
// by several threads for different calls; each call spreads over its own workers. Backends produce and leave the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/prepared_update.h"
#include "change/state_digest.h"
#include "codec/change_digest.h"
#include "codec/codec.h"
#include "payload/payload_reader.h"
#include "tensor/layout.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// Bytes of every tensor of a layout, in layout order.
using TensorBytes = std::span<const ConstBytes>;
using MutableTensorBytes = std::span<const MutableBytes>;

// One owner's segments, encoded, and D over the elements that it owns, before the change.
struct EncodedOwner {
  std::vector<EncodedSegment> segments;  // parallel to the maps given
  StateDigest base;
};

enum class ScanScope {
  kAll,     // every tensor: D of the state
  kFrozen,  // frozen tensors only
};

// What a pre-flight or an apply found. Sums are over touched elements, before and after in the direction taken. Apply sums lane
// 0 only, and nothing where the payload has no digests: `digest` is zero there.
struct ApplyReport {
  uint64_t change_count = 0;
  uint64_t record_count = 0;
  ChangeDigest digest;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // Sender: compares old and new bytes of the elements that `maps` own and encodes what differs, with digests. Both views are
  // parallel to the maps.
  virtual Result<EncodedOwner> EncodeDiff(const Layout& layout, std::span<const SegmentMap> maps,
                                          std::span<const SegmentBytes> old_bytes, std::span<const SegmentBytes> new_bytes,
                                          CodecId codec, const EncodeOptions& options) const = 0;

  // Sender: encodes one segment from any source of changes (a fold).
  virtual Result<EncodedSegment> Encode(const Layout& layout, const SegmentMap& map, const ChangeSource& source, CodecId codec,
                                        const EncodeOptions& options) const = 0;

  // A decoder of one segment of a payload into host memory: for folds, file targets and reports.
  virtual Result<std::unique_ptr<SegmentDecoder>> Open(const PayloadView& payload, const PayloadSegment& segment) const = 0;

  // D over the elements of one map: what ranks that hold the same part compare.
  virtual StateDigest Digest(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes, int threads) const = 0;

  // The state digest, or what remains of it where owners have counted their own elements. Does not depend on `threads`.
  virtual StateDigest Scan(const Layout& layout, TensorBytes bytes, ScanScope scope, int threads) const = 0;

  // Receiver, while the sampler still runs: decodes and validates every record and, where the payload has digests, compares
  // each with the live bytes. Changes nothing. kCorrupt: the payload lies; kRefused: live is not the state it expects.
  virtual Result<ApplyReport> Preflight(const Layout& layout, const PayloadView& payload, TensorBytes live, Direction direction,
                                        int threads) const = 0;

  // Receiver, in the pause: XORs every change into live memory, checking each record against the old values it met. Only for
  // memory that dies with the process and only after a successful Preflight of the same payload. If a check fails, everything
  // is XORed back before it returns kRefused: live is as it was, whatever went wrong. Nobody else may touch live meanwhile.
  virtual Result<ApplyReport> Apply(const Layout& layout, const PayloadView& payload, MutableTensorBytes live,
                                    Direction direction, int threads) const = 0;
};

}  // namespace xorbit
