// Changes of a segment in, frames out: the encoder shared by all mask codecs.
#pragma once

#include <cstdint>
#include <span>

#include "change/change_source.h"
#include "codec/codec.h"
#include "codec/mask_inner.h"
#include "tensor/segment.h"

namespace xorbit {

// Codec::Encode with this inner codec, and with the outer Zstd stage if `has_outer`. Memory stays within a few MiB a thread
// plus the result. kUsage if the options cannot be met.
Result<EncodedSegment> EncodeMask(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                  std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                  const EncodeOptions& options);

}  // namespace xorbit
