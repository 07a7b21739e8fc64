#include "backend/fold_chain.h"

#include <algorithm>
#include <utility>

#include "backend/named_decoder.h"
#include "base/text.h"
#include "codec/change_digest.h"
#include "codec/decoded_source.h"
#include "payload/payload_writer.h"

namespace xorbit {
namespace {

constexpr uint64_t kChangeCacheBytes = uint64_t{48} << 20;

struct OpenedInput {
  size_t step;
  size_t payload;
  const PayloadSegment* segment;
  std::unique_ptr<SegmentDecoder> decoder;
};

std::string NameOf(const FoldStep& step, const PayloadView& payload) {
  return step.name + ": owner " + std::to_string(payload.info.owner_index);
}

// All segments of the chain, in the order in which its deltas are taken.
Result<std::vector<OpenedInput>> OpenChain(const Backend& backend, std::span<const FoldStep> chain, Direction direction) {
  std::vector<OpenedInput> inputs;
  for (size_t turn = 0; turn < chain.size(); ++turn) {
    const size_t s = direction == Direction::kForward ? turn : chain.size() - 1 - turn;
    for (size_t p = 0; p < chain[s].payloads.size(); ++p) {
      const PayloadView& payload = chain[s].payloads[p];
      for (const PayloadSegment& segment : payload.segments) {
        auto decoder = backend.Open(payload, segment);
        if (!decoder.ok()) return decoder.status().WithContext(NameOf(chain[s], payload));
        inputs.push_back(
            {s, p, &segment, std::make_unique<NamedDecoder>(std::move(decoder).value(), NameOf(chain[s], payload))});
      }
    }
  }
  return inputs;
}

class ChainFold {
 public:
  ChainFold(const Backend& backend, const Layout& layout, std::span<const FoldStep> chain, const LiveMemory& live,
            const FoldOptions& options, std::vector<OpenedInput> inputs)
      : backend_(backend),
        layout_(layout),
        chain_(chain),
        live_(live),
        options_(options),
        inputs_(std::move(inputs)),
        tensor_keys_(TensorKeysOf(layout)),
        tally_(RecordCounts(inputs_)) {
    for (const OpenedInput& input : inputs_) reached_.Add(input.segment->map, *input.decoder);
    reached_.Seal();
  }

  Result<FoldedUpdate> Fold() {
    FoldedUpdate folded;
    for (const PayloadView& owner : chain_.front().payloads) {
      XORBIT_ASSIGN_OR_RETURN(Buffer file, FoldOwner(owner));
      folded.files.push_back(std::move(file));
    }
    XORBIT_RETURN_IF_ERROR(CheckRecords(&folded));
    for (const Buffer& file : folded.files) {
      XORBIT_ASSIGN_OR_RETURN(PayloadView view, ParsePayload(layout_, file));
      folded.payloads.push_back(std::move(view));
    }
    return folded;
  }

 private:
  static std::vector<uint64_t> RecordCounts(const std::vector<OpenedInput>& inputs) {
    std::vector<uint64_t> counts;
    for (const OpenedInput& input : inputs) counts.push_back(input.decoder->record_count());
    return counts;
  }

  bool IsAbsent(const PayloadSegment& segment) const { return live_.map->is_absent(segment.map.group()); }

  Result<Buffer> FoldOwner(const PayloadView& owner) {
    EncodeOptions encode;
    encode.threads = options_.threads;
    encode.change_cache_bytes = kChangeCacheBytes;
    std::vector<SegmentMap> maps;
    std::vector<EncodedSegment> segments;
    for (const PayloadSegment& segment : owner.segments) {
      if (IsAbsent(segment)) continue;
      std::vector<DecodedInput> inputs;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const SegmentMap& map = inputs_[i].segment->map;
        if (map.unit_bytes() != segment.map.unit_bytes() || map.group() != segment.map.group()) continue;
        inputs.push_back({&map, inputs_[i].decoder.get(), i});
      }
      const DecodedSource source(segment.map, std::move(inputs), LiveValues{live_, tensor_keys_, &tally_}, &reached_);
      XORBIT_ASSIGN_OR_RETURN(EncodedSegment encoded, backend_.Encode(layout_, segment.map, source, CodecId::kSparse, encode));
      segments.push_back(std::move(encoded));
      maps.push_back(segment.map);
    }
    XORBIT_ASSIGN_OR_RETURN(Payload payload,
                            WritePayload(layout_, {CodecId::kSparse, owner.info.owner_index, owner.info.owner_count}, maps,
                                         std::move(segments), options_.threads));
    Buffer file = std::move(payload.head);
    file.reserve(payload.byte_count);
    for (Buffer& piece : payload.body) {
      AppendBytes(file, piece);
      piece = Buffer();
    }
    return file;
  }

  // Compares what the records met with what they say; hands it out instead if only the cohort can.
  Status CheckRecords(FoldedUpdate* folded) const {
    if (options_.partial) {
      for (const FoldStep& step : chain_) folded->sums.emplace_back(step.payloads.size());
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OpenedInput& input = inputs_[i];
      const bool has_digests = chain_[input.step].payloads[input.payload].has_digests();
      for (uint64_t r = 0; r < input.decoder->record_count(); ++r) {
        const ChangeDigest met = tally_.Get(i, r);
        if (options_.partial) {
          folded->sums[input.step][input.payload].push_back({met.before, met.after});
        } else if (has_digests && !IsAbsent(*input.segment) &&
                   StatedSums(input.decoder->info(r), options_.direction) != RecordSums{met.before, met.after}) {
          return Misfit(input, input.decoder->info(r));
        }
      }
    }
    return {};
  }

  Status Misfit(const OpenedInput& input, const RecordInfo& info) const {
    const Run run = RunAt(input.segment->map, info.first);
    return RefusedError(NameOf(chain_[input.step], chain_[input.step].payloads[input.payload]) +
                        ": live weights do not lead to the state that it starts from: tensor " +
                        Quoted(layout_.tensors()[run.tensor_index].name) + " differs at or after element " +
                        std::to_string(run.tensor_element));
  }

  const Backend& backend_;
  const Layout& layout_;
  std::span<const FoldStep> chain_;
  LiveMemory live_;
  FoldOptions options_;
  std::vector<OpenedInput> inputs_;  // in the order in which they are poured
  std::vector<uint64_t> tensor_keys_;
  RecordTally tally_;
  ReachedElements reached_;
};

}  // namespace

Result<FoldedUpdate> FoldChain(const Backend& backend, const Layout& layout, std::span<const FoldStep> chain,
                               const LiveMemory& live, const FoldOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckMemory(layout, live));
  XORBIT_ASSIGN_OR_RETURN(std::vector<OpenedInput> inputs, OpenChain(backend, chain, options.direction));
  return ChainFold(backend, layout, chain, live, options, std::move(inputs)).Fold();
}

}  // namespace xorbit
