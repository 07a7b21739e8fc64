// The default codec: positions and values of changes, near their entropy (docs/formats/sparse.md).
#pragma once

#include "codec/codec.h"
#include "codec/sparse_kernels.h"

namespace xorbit {

// The kernels decide how fast it is, never which bytes it writes or accepts.
class SparseCodec final : public Codec {
 public:
  // `kernels` must outlive the codec.
  explicit SparseCodec(const SparseKernels& kernels) : kernels_(&kernels) {}
  CodecId id() const override { return CodecId::kSparse; }
  std::string_view name() const override { return "sparse"; }
  Result<EncodedSegment> Encode(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                const EncodeOptions& options) const override;
  Result<std::unique_ptr<SegmentDecoder>> Open(const SegmentMap& map, const EncodedSegmentView& view) const override;

 private:
  const SparseKernels* kernels_;
};

// With the portable kernels; static lifetime.
const Codec* PortableSparseCodec();

}  // namespace xorbit
