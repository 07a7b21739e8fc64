// What a backend does for the journey, on host memory (backend/cpu) or device memory (backend/cuda). One instance may be used
// by several threads for different calls; each call spreads over its own workers. Backends produce and leave the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/due_changes.h"
#include "backend/prepared_update.h"
#include "backend/serving_throttle.h"
#include "change/state_digest.h"
#include "codec/codec.h"
#include "payload/payload_reader.h"
#include "tensor/layout.h"
#include "tensor/live_memory.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// Bytes of every tensor of a layout, in layout order.
using TensorBytes = std::span<const ConstBytes>;

// What a diff starts from: an owner's segments before the change.
struct OldState {
  std::span<const SegmentBytes> bytes;  // parallel to the maps
  // D over them, if the caller has it: then they are not scanned, and it is the caller's word.
  std::optional<StateDigest> digest = std::nullopt;
  // By segment, what `bytes` count as having and get on the way; empty where nothing is due. Only with a digest.
  std::span<const std::unique_ptr<DueChanges>> due = {};

  DueChanges* DueIn(size_t segment) const { return due.empty() ? nullptr : due[segment].get(); }
};

// One owner's segments, encoded, and D over the elements that it owns, before the change.
struct EncodedOwner {
  std::vector<EncodedSegment> segments;  // parallel to the maps given
  StateDigest base;
};

enum class ScanScope {
  kAll,     // every tensor: D of the state
  kFrozen,  // frozen tensors only
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // Sender: compares old and new bytes of the elements that `maps` own and encodes what differs, with digests. `new_bytes` is
  // parallel to the maps. After success nothing is due any more; after an error something may be, and the call may be repeated.
  virtual Result<EncodedOwner> EncodeDiff(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                          std::span<const SegmentBytes> new_bytes, CodecId codec,
                                          const EncodeOptions& options) const = 0;

  // Sender: encodes one segment from any source of changes (a fold).
  virtual Result<EncodedSegment> Encode(const Layout& layout, const SegmentMap& map, const ChangeSource& source, CodecId codec,
                                        const EncodeOptions& options) const = 0;

  // A decoder of one segment of a payload into host memory: for folds, file targets and reports.
  virtual Result<std::unique_ptr<SegmentDecoder>> Open(const PayloadView& payload, const PayloadSegment& segment) const = 0;

  // D over the elements of each part of one map: what ranks that hold the same part compare, and together D over the map.
  virtual std::vector<StateDigest> DigestParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                               int threads) const = 0;

  // The state digest, or what remains of it where owners have counted their own elements. Does not depend on `threads`.
  virtual StateDigest Scan(const Layout& layout, TensorBytes bytes, ScanScope scope, int threads) const = 0;

  // The same of live memory, through its map: D over the elements that this memory counts, which add up over the ranks of a
  // cohort. Of shadows and derived tensors the kept copies count. `live` fits its map, and the map the layout. Cannot fail on
  // host memory, and then looks at `threads` only; on a device at `throttle` only.
  virtual Result<StateDigest> ScanLive(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads,
                                       const ServingThrottle& throttle) const = 0;

  // Whether FoldChain may read this live memory: it is the host's. Elsewhere a chain is taken one delta after the other.
  virtual Result<bool> CanFoldOver(const LiveMemory& /*live*/) const { return true; }

  // Receiver, while the sampler still runs: decodes and validates every record of a delta's payloads, compares each with live
  // memory where it has digests, and stages what the pause needs. Live memory is only read. `layout` is the payloads'; the
  // payloads and what `live` points to outlive the result. kCorrupt: the payload lies; kRefused: live is not the state that it
  // expects, copies in it differ, or tied weights would come apart. Segments of presence groups that the map lacks are decoded
  // and left out.
  virtual Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                          const LiveMemory& live, const PrepareOptions& options) const = 0;

  // Takes back what an update that was kept in `undo` did, if its process did not come to the end: every element that holds its
  // new value gets its old one, and the record is waiting again. May be cut anywhere and be done again. kCorrupt: the log is
  // not what was written, or lies outside live memory; kRefused: some element holds neither value, or the record is of other
  // live memory. Live memory is then as it was. Success without a record, or if it is not armed: there is nothing to take back.
  virtual Status RollBack(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads) const = 0;
};

}  // namespace xorbit
