// Changes of a segment to sparse tiles: one pass for tables and plan, one for the tiles.
#pragma once

#include <cstdint>
#include <span>

#include "codec/codec.h"
#include "codec/sparse_kernels.h"

namespace xorbit {

// See Codec::Encode. The same changes give the same bytes whatever the kernels, threads and cache.
Result<EncodedSegment> EncodeSparse(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                    const EncodeOptions& options, const SparseKernels& kernels);

}  // namespace xorbit
