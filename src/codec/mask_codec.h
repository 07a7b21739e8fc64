// The described pipeline's codecs: `snappy`, `lz4`, `snappy+zstd`, `lz4+zstd`, `zstd` (docs/formats/mask-codecs.md).
#pragma once

#include <span>

#include "codec/codec.h"
#include "codec/mask_format.h"

namespace xorbit {

// In the order in which tables list them.
std::span<const Codec* const> MaskCodecs();

// The segment that Codec::Encode makes, for who has the frames already: `records` of all frames, with digests and hashes, and
// the inner stream that they tell of. Runs the codec's outer stage on options.threads threads. kUsage unless `codec` is one of
// them.
Result<EncodedSegment> SealFrames(CodecId codec, std::span<const FrameRecord> records, const StateDigest& change,
                                  ConstBytes inner, const EncodeOptions& options);

}  // namespace xorbit
