// The described pipeline's codecs: `snappy`, `lz4`, `snappy+zstd`, `lz4+zstd`, `zstd` (docs/formats/mask-codecs.md).
#pragma once

#include <span>

#include "codec/codec.h"

namespace xorbit {

// In the order in which tables list them.
std::span<const Codec* const> MaskCodecs();

}  // namespace xorbit
