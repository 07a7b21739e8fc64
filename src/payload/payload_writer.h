// Puts encoded segments into a payload: head, chunk hashes, and the hashes that the manifest will hold.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sha256.h"
#include "change/state_digest.h"
#include "codec/codec.h"
#include "tensor/layout.h"
#include "tensor/segment.h"

namespace xorbit {

struct PayloadInfo {
  CodecId codec = CodecId::kSparse;
  uint32_t owner_index = 0;
  uint32_t owner_count = 1;
};

// A finished payload: `head` then `body` end to end are the file's bytes.
struct Payload {
  PayloadInfo info;
  Buffer head;
  std::vector<Buffer> body;
  uint64_t byte_count = 0;
  uint64_t change_count = 0;
  bool has_digests = false;
  StateDigest change;
  Sha256Digest head_sha256{};
  Sha256Digest sha256{};
};

// maps[i] is the map that segments[i] was encoded with. Takes the bodies, copies nothing large. Segments without changes are
// kept: their parts are what proves coverage. Chunks are hashed on `threads` threads; the result does not depend on them.
Result<Payload> WritePayload(const Layout& layout, const PayloadInfo& info, const std::vector<SegmentMap>& maps,
                             std::vector<EncodedSegment> segments, int threads);

// A segment's parts as bytes: runs of whole tensors of the segment's unit and group cost two small numbers, so a payload that
// owns everything spends a handful of bytes on its parts. The inverse refuses whatever does not follow the format.
Buffer EncodeParts(const Layout& layout, const SegmentMap& map);
Result<SegmentMap> DecodeParts(const Layout& layout, uint32_t unit_bytes, uint32_t group, ConstBytes bytes);

}  // namespace xorbit
