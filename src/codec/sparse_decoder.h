// Reads sparse tiles that nobody vouches for.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/sparse_kernels.h"

namespace xorbit {

// See Codec::Open. All kernels accept and reject the same bytes.
Result<std::unique_ptr<SegmentDecoder>> OpenSparse(const SegmentMap& map, const EncodedSegmentView& view,
                                                   const SparseKernels& kernels);

}  // namespace xorbit
