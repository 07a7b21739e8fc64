// Opened deltas, decoded into any segment one asks for: the bridge from payloads to folds and patches.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "codec/decoded_source.h"
#include "payload/delta.h"

namespace xorbit {

// A decoder of one segment of an opened delta, whose errors name the owner's file. The delta must outlive it.
Result<std::unique_ptr<SegmentDecoder>> OpenSegment(const Backend& backend, const Delta& delta, size_t owner,
                                                    const PayloadSegment& segment);

// Decoders of all segments of a chain of deltas. The deltas must outlive it. Safe to share between threads.
class DecodedChain {
 public:
  // kCorrupt, naming the owner's file, if a segment does not hold together.
  static Result<DecodedChain> Open(const Backend& backend, const std::vector<Delta>& chain);

  // Everything that the chain changes within `target`, as one source. `values` as in DecodedSource.
  std::unique_ptr<DecodedSource> Into(const SegmentMap& target, ValueSide side, std::optional<SegmentBytes> values) const;

 private:
  struct Entry {
    const SegmentMap* map;
    std::unique_ptr<SegmentDecoder> decoder;
  };
  std::vector<Entry> entries_;
  std::unique_ptr<ReachedElements> reached_ = std::make_unique<ReachedElements>();  // a fixed place: sources point to it
};

}  // namespace xorbit
