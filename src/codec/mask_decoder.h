// Frames back into changes: the reader shared by all mask codecs. It trusts nothing that it is given.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "codec/codec.h"
#include "codec/mask_format.h"
#include "codec/mask_inner.h"
#include "codec/mask_outer.h"
#include "tensor/segment.h"

namespace xorbit {

class MaskDecoder final : public SegmentDecoder {
  // What the frames are read from, all of it checked.
  struct Parts {
    const InnerCodec* inner = nullptr;
    const SegmentMap* map = nullptr;
    ConstBytes records;
    InnerStream undone;  // what inner_stream points to, if there is an outer stage
    ConstBytes inner_stream;
  };

 public:
  // Checks all records and undoes the outer stage, if there is one, into memory: as much as the inner frames take, which is at
  // most the inner codec's worst case for the frames' masks. Contract as for Codec::Open.
  static Result<std::unique_ptr<MaskDecoder>> Open(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                                   const EncodedSegmentView& view, int threads);
  explicit MaskDecoder(Parts parts) : parts_(std::move(parts)) {}  // for Open: nobody else can name Parts

  uint64_t record_count() const override { return parts_.records.size() / sizeof(FrameRecord); }
  RecordInfo info(uint64_t record_index) const override;
  Status Decode(uint64_t record_index, DecodedRecord* out) const override;

  // For other decoders of the same frames: the record, and the inner frame, whose hash has not been checked.
  FrameRecord frame(uint64_t record_index) const;
  ConstBytes inner_frame(uint64_t record_index) const;

 private:
  Parts parts_;
};

}  // namespace xorbit
