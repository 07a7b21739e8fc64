// Frames back into changes: the reader shared by all mask codecs. It trusts nothing that it is given.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "codec/codec.h"
#include "codec/mask_format.h"
#include "codec/mask_inner.h"
#include "codec/outer_chunks.h"
#include "tensor/segment.h"

namespace xorbit {

class MaskDecoder final : public SegmentDecoder {
  // What the frames are read from, all of it checked.
  struct Parts {
    const InnerCodec* inner = nullptr;
    const SegmentMap* map = nullptr;
    ConstBytes records;
    ConstBytes inner_stream;             // without an outer stage
    std::unique_ptr<OuterChunks> outer;  // with one
  };

 public:
  // Checks all records; the outer stage, if there is one, is undone as frames are decoded. Contract as for Codec::Open.
  static Result<std::unique_ptr<MaskDecoder>> Open(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                                   const EncodedSegmentView& view);
  explicit MaskDecoder(Parts parts) : parts_(std::move(parts)) {}  // for Open: nobody else can name Parts

  uint64_t record_count() const override { return parts_.records.size() / sizeof(FrameRecord); }
  RecordInfo info(uint64_t record_index) const override;
  Status Decode(uint64_t record_index, DecodedRecord* out) const override;

  // For other decoders of the same frames: the record, and the inner frame, whose hash has not been checked: where it lies, or,
  // if there is an outer stage, in `room`, which has room for it.
  FrameRecord frame(uint64_t record_index) const;
  Result<ConstBytes> InnerFrame(uint64_t record_index, uint8_t* room) const;

 private:
  Parts parts_;
};

}  // namespace xorbit
