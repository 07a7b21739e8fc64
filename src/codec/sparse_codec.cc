#include "codec/sparse_codec.h"

#include "codec/sparse_decoder.h"
#include "codec/sparse_encoder.h"

namespace xorbit {

Result<EncodedSegment> SparseCodec::Encode(const SegmentMap& map, std::span<const uint64_t> tensor_keys,
                                           const ChangeSource& source, const EncodeOptions& options) const {
  return EncodeSparse(map, tensor_keys, source, options, *kernels_);
}

Result<std::unique_ptr<SegmentDecoder>> SparseCodec::Open(const SegmentMap& map, const EncodedSegmentView& view) const {
  return OpenSparse(map, view, *kernels_);
}

const Codec* PortableSparseCodec() {
  static const SparseCodec codec(PortableSparseKernels());
  return &codec;
}

}  // namespace xorbit
