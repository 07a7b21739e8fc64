// Reads payloads that nobody vouches for. Everything the host can check without decoding is checked here; what needs decoding
// is checked by the codecs (SegmentDecoder::Decode) and by pre-flight, before any live byte changes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sha256.h"
#include "codec/codec.h"
#include "payload/payload_format.h"
#include "payload/payload_writer.h"
#include "tensor/layout.h"
#include "tensor/segment.h"

namespace xorbit {

struct PayloadSegment {
  SegmentMap map;
  EncodedSegmentView view;  // into the bytes given to Parse
  uint64_t body_bytes = 0;  // of the view's body, also where only the head was given
};

struct PayloadView {
  PayloadHeader header{};
  PayloadInfo info;
  std::vector<PayloadSegment> segments;  // groups and units ascending: one segment for each pair at most
  std::vector<ChunkRecord> chunks;
  ConstBytes body;

  bool has_digests() const { return (header.flags & kPayloadHasDigests) != 0; }
  StateDigest change() const { return {header.change_lane0, header.change_lane1}; }
};

// Parses the head and slices the body. `bytes` is the whole file, 8-byte aligned, and must outlive the view; `layout` is the
// layout that the manifest names. Checks: magic, version, flags, lengths that add up exactly, padding, layout digest, codec
// known, parts valid, counts consistent, chunks tiling the body. No hash is checked. Allocates at most a small multiple of
// bytes.size(), whatever the bytes say.
Result<PayloadView> ParsePayload(const Layout& layout, ConstBytes bytes);

// The same from the head alone, the first bytes of a file of `file_bytes`: the views of bodies are empty.
Result<PayloadView> ParsePayloadHead(const Layout& layout, ConstBytes head, uint64_t file_bytes);

// Hashes every body chunk on `threads` threads: kCorrupt names the first one that does not match.
Status VerifyChunks(const PayloadView& payload, int threads);

// The same of chunks [first, end), which `bytes` holds end to end.
Status VerifyChunks(const PayloadView& payload, uint64_t first, uint64_t end, ConstBytes bytes, int threads);

}  // namespace xorbit
