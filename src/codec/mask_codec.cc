#include "codec/mask_codec.h"

#include <algorithm>
#include <vector>

#include "codec/mask_decoder.h"
#include "codec/mask_encoder.h"
#include "codec/mask_inner.h"

namespace xorbit {
namespace {

// Zstd levels by measurement (docs/design/codecs.md): 5 is where the outer stage's matches begin to follow the encoders'
// pattern; on a raw sparse mask, level 1 beats 3, 5 and 9.
constexpr int kOuterZstdLevel = 5;
constexpr int kInnerZstdLevel = 1;

class MaskCodec final : public Codec {
 public:
  MaskCodec(CodecId id, std::string_view name, const InnerCodec& inner, bool has_outer)
      : id_(id),
        name_(name),
        inner_(&inner),
        has_outer_(has_outer),
        default_zstd_level_(has_outer ? kOuterZstdLevel : kInnerZstdLevel) {}

  CodecId id() const override { return id_; }
  std::string_view name() const override { return name_; }

  Result<EncodedSegment> Encode(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                const EncodeOptions& options) const override {
    return EncodeMask(*inner_, has_outer_, map, tensor_keys, source, Resolved(options));
  }

  Result<std::unique_ptr<SegmentDecoder>> Open(const SegmentMap& map, const EncodedSegmentView& view) const override {
    XORBIT_ASSIGN_OR_RETURN(std::unique_ptr<SegmentDecoder> decoder, MaskDecoder::Open(*inner_, has_outer_, map, view));
    return decoder;
  }

  bool has_outer() const { return has_outer_; }
  EncodeOptions Resolved(EncodeOptions options) const {
    if (options.zstd_level == 0) options.zstd_level = default_zstd_level_;
    return options;
  }

 private:
  CodecId id_;
  std::string_view name_;
  const InnerCodec* inner_;
  bool has_outer_;
  int default_zstd_level_;
};

std::span<const MaskCodec* const> All() {
  static const MaskCodec snappy(CodecId::kSnappy, "snappy", SnappyInner(), false);
  static const MaskCodec lz4(CodecId::kLz4, "lz4", Lz4Inner(), false);
  static const MaskCodec snappy_zstd(CodecId::kSnappyZstd, "snappy+zstd", SnappyInner(), true);
  static const MaskCodec lz4_zstd(CodecId::kLz4Zstd, "lz4+zstd", Lz4Inner(), true);
  static const MaskCodec zstd(CodecId::kZstd, "zstd", ZstdInner(), false);
  static const MaskCodec* const codecs[] = {&snappy, &lz4, &snappy_zstd, &lz4_zstd, &zstd};
  return codecs;
}

}  // namespace

std::span<const Codec* const> MaskCodecs() {
  static const std::vector<const Codec*> codecs(All().begin(), All().end());
  return codecs;
}

Result<EncodedSegment> SealFrames(CodecId codec, std::span<const FrameRecord> records, const StateDigest& change,
                                  ConstBytes inner, const EncodeOptions& options) {
  for (const MaskCodec* mask : All()) {
    if (mask->id() != codec) continue;
    MaskSegmentWriter writer(mask->has_outer(), mask->Resolved(options));
    for (const FrameRecord& record : records) writer.AddFrame(record);
    XORBIT_RETURN_IF_ERROR(writer.AddInnerBytes(inner));
    return writer.Finish(change);
  }
  return UsageError("frames are for the mask codecs");
}

}  // namespace xorbit
