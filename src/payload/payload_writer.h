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
  bool has_digests = false;  // true too if there is no change that could lack one
  StateDigest change;
  Sha256Digest head_sha256{};
  Sha256Digest sha256{};
};

// The file's bytes in one piece. Copies all of them: for tests and measurements, where there is no file.
Buffer FileBytesOf(const Payload& payload);

// Puts segments into a payload. maps[i] is the map, made for `layout`, that segments[i] was encoded with; they ascend by group,
// then unit. Takes the bodies, copies nothing large. Segments without changes are kept: their parts are what proves coverage.
// Chunks are hashed on `threads` threads; the result does not depend on them. kUsage if only some of the segments with changes
// have digests.
Result<Payload> WritePayload(const Layout& layout, const PayloadInfo& info, const std::vector<SegmentMap>& maps,
                             std::vector<EncodedSegment> segments, int threads);

}  // namespace xorbit
