// Changes of a segment in, frames out: the encoder shared by all mask codecs.
#pragma once

#include <cstdint>
#include <span>

#include "change/change_source.h"
#include "codec/codec.h"
#include "codec/mask_format.h"
#include "codec/mask_inner.h"
#include "codec/mask_outer.h"
#include "tensor/segment.h"

namespace xorbit {

// Codec::Encode with this inner codec, and with the outer Zstd stage if `has_outer`. Memory stays within a few MiB a thread
// plus the result. kUsage if the options cannot be met.
Result<EncodedSegment> EncodeMask(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                  std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                  const EncodeOptions& options);

// kUsage if masks of this unit cannot be cut into frames as the options say.
Status CheckFrameBytes(const EncodeOptions& options, uint32_t unit_bytes);

// Puts a segment together from its frames, wherever they were encoded.
class MaskSegmentWriter {
 public:
  // Looks at the options' Zstd level and threads.
  MaskSegmentWriter(bool has_outer, const EncodeOptions& options)
      : has_outer_(has_outer), threads_(options.threads), outer_(options.zstd_level, options.threads) {}

  // Ascending; inner_offset counts from the segment's first inner byte.
  void AddFrame(const FrameRecord& record);
  // More of the inner stream, in order.
  Status AddInner(std::vector<Buffer> pieces);
  // The same; afterwards the caller's memory is its own again.
  Status AddInnerBytes(ConstBytes piece);
  // Once, last; with digests.
  Result<EncodedSegment> Finish(const StateDigest& change);

 private:
  bool has_outer_;
  int threads_;
  OuterCompressor outer_;
  EncodedSegment segment_;
};

}  // namespace xorbit
