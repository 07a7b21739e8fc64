// One interface for every codec: changes of a segment in, independently decodable records out, and back.
//
// A *record* is the piece that can be decoded alone: a tile of the sparse codec, a frame of the mask codecs. Records ascend and
// do not overlap. Whatever the codec, a record says which elements it spans, how many of them change, and lane 0 of the state
// digest over its touched elements before and after.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "change/change_source.h"
#include "change/state_digest.h"
#include "tensor/segment.h"

namespace xorbit {

// Numbers stand in payload heads: never renumber, only append.
enum class CodecId : uint32_t {
  kSparse = 1,
  kSnappy = 2,
  kLz4 = 3,
  kSnappyZstd = 4,
  kLz4Zstd = 5,
  kZstd = 6,
  // 7 is reserved for sparse conditioned on the old value's exponent, 8 for coded integer differences.
};

struct EncodeOptions {
  int threads = 1;
  // Changes kept in memory between the pass that makes the tables and the pass that encodes; above it the source is read twice.
  uint64_t change_cache_bytes = uint64_t{160} << 20;
  int zstd_level = 0;                        // mask codecs with an outer or inner Zstd; 0: the codec's own choice
  uint64_t frame_bytes = uint64_t{1} << 20;  // mask bytes a frame, mask codecs
};

// One segment, encoded. Sections other than the body are small and go into the payload's head.
struct EncodedSegment {
  Buffer tables;               // sparse: frequency tables
  Buffer records;              // fixed-size records, ascending
  Buffer outer;                // records of the outer Zstd chunks, if the codec has them
  std::vector<Buffer> body;    // pieces, to be written end to end
  std::vector<uint64_t> cuts;  // body offsets at which a record (or outer chunk) ends, ascending; the last is the body's size
  uint64_t record_count = 0;
  uint64_t change_count = 0;
  bool has_digests = false;
  StateDigest change;  // after - before over all touched elements, both lanes; zero without digests
};

// The same, as a reader sees it: untrusted bytes that outlive the decoder.
struct EncodedSegmentView {
  bool has_digests = false;
  uint64_t record_count = 0;
  uint64_t change_count = 0;
  ConstBytes tables;
  ConstBytes records;
  ConstBytes outer;
  ConstBytes body;
};

struct RecordInfo {
  uint64_t first = 0;         // segment element: sparse tiles start and end on changed elements, frames on their grid
  uint64_t last = 0;          // inclusive
  uint64_t change_count = 0;  // at least 1
  uint64_t before = 0;        // lane 0 over touched elements; 0 without digests
  uint64_t after = 0;
};

// Reused from record to record so that the hot loop does not allocate.
struct DecodedRecord {
  uint64_t count = 0;
  std::vector<uint32_t> offsets;  // element - RecordInfo::first, strictly ascending; first `count` entries valid
  std::vector<uint8_t> xors;      // count * unit_bytes, little-endian, none of them zero
  std::vector<uint8_t> scratch;   // the decoder's own
};

// Reads one segment. Codec::Open has already checked that records are well-formed, ascend, stay inside the segment and
// inside the body, and that their counts add up; Decode checks everything else. Thread-safe.
class SegmentDecoder {
 public:
  SegmentDecoder() = default;
  SegmentDecoder(const SegmentDecoder&) = delete;
  SegmentDecoder& operator=(const SegmentDecoder&) = delete;
  virtual ~SegmentDecoder() = default;
  virtual uint64_t record_count() const = 0;
  virtual RecordInfo info(uint64_t record_index) const = 0;
  // On success the decoded changes are exactly info().change_count, ascending, within [first, last], none zero. On kCorrupt the
  // contents of `out` are unspecified. Memory and time are bounded by the record's span.
  virtual Status Decode(uint64_t record_index, DecodedRecord* out) const = 0;
};

// Stateless; static lifetime; thread-safe.
class Codec {
 public:
  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;
  virtual CodecId id() const = 0;
  virtual std::string_view name() const = 0;
  // Encodes all changes of `source`, whose unit and element count are the map's. tensor_keys[i] = TensorKeyOf(name of layout
  // tensor i). The bytes depend on the changes and values only, never on threads, memory or machine. Digests are written when
  // the source has values. Fails only if the source does, or a library does.
  virtual Result<EncodedSegment> Encode(const SegmentMap& map, std::span<const uint64_t> tensor_keys,
                                        const ChangeSource& source, const EncodeOptions& options) const = 0;
  // kCorrupt if the head sections do not hold together. Decodes nothing: what it takes is bounded by the view's bytes. `map`
  // and the view's bytes must outlive the decoder.
  virtual Result<std::unique_ptr<SegmentDecoder>> Open(const SegmentMap& map, const EncodedSegmentView& view) const = 0;
};

// Null if unknown.
const Codec* FindCodec(std::string_view name);
const Codec* FindCodec(CodecId id);
// All codecs, in the order in which tables list them.
std::span<const Codec* const> AllCodecs();

}  // namespace xorbit
