// A decoder whose errors say what it decodes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "codec/codec.h"

namespace xorbit {

class NamedDecoder final : public SegmentDecoder {
 public:
  NamedDecoder(std::unique_ptr<SegmentDecoder> decoder, std::string name)
      : decoder_(std::move(decoder)), name_(std::move(name)) {}
  uint64_t record_count() const override { return decoder_->record_count(); }
  RecordInfo info(uint64_t record_index) const override { return decoder_->info(record_index); }
  Status Decode(uint64_t record_index, DecodedRecord* out) const override {
    Status status = decoder_->Decode(record_index, out);
    return status.ok() ? status : status.WithContext(name_);
  }

 private:
  std::unique_ptr<SegmentDecoder> decoder_;
  std::string name_;
};

}  // namespace xorbit
