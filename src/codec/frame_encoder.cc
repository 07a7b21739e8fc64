#include "codec/frame_encoder.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/unit.h"
#include "base/xxh3.h"

namespace xorbit {
namespace {

// Inner frames are gathered in pieces of at least this much, so that none is moved twice.
constexpr uint64_t kPieceBytes = uint64_t{256} << 10;

template <uint32_t kUnitBytes>
class StretchEncoder {
 public:
  StretchEncoder(const FrameJob& job, FrameScratch* scratch)
      : job_(job), grid_(*job.map, job.frame_elements), scratch_(*scratch) {}

  Status Run(const ElementRange& stretch) {
    const uint64_t first_window = stretch.first / kWindowElements;
    const uint64_t end_window = DivideRoundUp(stretch.end, kWindowElements);
    if (!job_.source->MayChange(first_window, end_window - first_window)) return {};
    WindowChanges& window = scratch_.window;
    const auto cursor = job_.source->Open(first_window, end_window - first_window);
    ElementRange frame{stretch.first, stretch.first};  // empty: the first change opens the first frame
    for (uint64_t index = first_window; index < end_window; ++index) {
      XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
      const uint64_t base = index * kWindowElements;
      uint32_t at = LowerBound(window, 0, base, stretch.first);
      const uint32_t end = LowerBound(window, at, base, stretch.end);
      while (at < end) {
        const uint64_t element = base + window.positions[at];
        if (element >= frame.end) {
          XORBIT_RETURN_IF_ERROR(FinishFrame(frame));
          frame = grid_.FrameOf(element);
        }
        const uint32_t next = std::min(end, LowerBound(window, at, base, frame.end));
        Collect(window, at, next, static_cast<uint32_t>(base - frame.first));
        at = next;
      }
    }
    return FinishFrame(frame);
  }

  EncodedStretch Take() { return std::move(result_); }

 private:
  // First change in [from, count) at or after `element`.
  static uint32_t LowerBound(const WindowChanges& window, uint32_t from, uint64_t base, uint64_t element) {
    if (element <= base) return from;
    if (element - base >= kWindowElements) return window.count;
    const auto begin = window.positions.begin();
    return static_cast<uint32_t>(std::lower_bound(begin + from, begin + window.count, element - base) - begin);
  }

  // `base` is the window's start relative to the frame's, modulo 2^32: a frame may start inside the window.
  void Collect(const WindowChanges& window, uint32_t begin, uint32_t end, uint32_t base) {
    const size_t had = scratch_.offsets.size();
    scratch_.offsets.resize(had + (end - begin));
    for (uint32_t i = begin; i < end; ++i) scratch_.offsets[had + (i - begin)] = base + window.positions[i];
    const auto bytes = [&](const std::vector<uint8_t>& all) {
      return ConstBytes(all).subspan(uint64_t{begin} * kUnitBytes, uint64_t{end - begin} * kUnitBytes);
    };
    AppendBytes(scratch_.xors, bytes(window.xors));
    if (job_.source->has_values()) AppendBytes(scratch_.olds, bytes(window.olds));
  }

  Status FinishFrame(const ElementRange& frame) {
    if (scratch_.offsets.empty()) return {};
    Status status = EmitFrame(frame, frame.first, 0, scratch_.offsets.size());
    scratch_.offsets.clear();
    scratch_.xors.clear();
    scratch_.olds.clear();
    return status;
  }

  // Writes changes [begin, end) as the frame `frame`; offsets count from `origin`. A frame whose digest would say that nothing
  // changed is halved, and its halves likewise, while there is more than one change.
  Status EmitFrame(const ElementRange& frame, uint64_t origin, size_t begin, size_t end) {
    if (begin == end) return {};
    ChangeDigest digest;
    if (job_.source->has_values()) {
      digest = Weigh(origin, begin, end);
      if (digest.before == digest.after && end - begin > 1) return EmitHalves(frame, origin, begin, end);
    }
    const uint64_t mask_bytes = frame.element_count() * kUnitBytes;
    const SparseMask mask = MaskOf(mask_bytes, static_cast<uint32_t>(frame.first - origin), begin, end);
    XORBIT_ASSIGN_OR_RETURN(const uint64_t inner_bytes,
                            job_.inner->Encode(mask, job_.zstd_level, scratch_.target.get(), &scratch_.mask));
    const ConstBytes inner(scratch_.target.get(), inner_bytes);
    FrameRecord record = {};
    record.first = frame.first;
    record.inner_offset = result_.inner_bytes;
    record.before = digest.before;
    record.after = digest.after;
    record.inner_hash = Xxh3Hash64Of(inner);
    record.element_count = static_cast<uint32_t>(frame.element_count());
    record.inner_bytes = static_cast<uint32_t>(inner_bytes);
    record.change_count = static_cast<uint32_t>(end - begin);
    result_.frames.push_back(record);
    AppendInner(inner);
    result_.change_count += end - begin;
    result_.digest += digest;
    return {};
  }

  void AppendInner(ConstBytes inner) {
    std::vector<Buffer>& pieces = result_.inner;
    if (pieces.empty() || pieces.back().capacity() - pieces.back().size() < inner.size()) {
      pieces.emplace_back().reserve(std::max<uint64_t>(kPieceBytes, inner.size()));
    }
    AppendBytes(pieces.back(), inner);
    result_.inner_bytes += inner.size();
  }

  Status EmitHalves(const ElementRange& frame, uint64_t origin, size_t begin, size_t end) {
    const uint64_t middle = frame.first + frame.element_count() / 2;
    const auto offsets = scratch_.offsets.begin();
    const auto split = static_cast<size_t>(
        std::lower_bound(offsets + static_cast<ptrdiff_t>(begin), offsets + static_cast<ptrdiff_t>(end), middle - origin) -
        offsets);
    XORBIT_RETURN_IF_ERROR(EmitFrame({frame.first, middle}, origin, begin, split));
    return EmitFrame({middle, frame.end}, origin, split, end);
  }

  ChangeDigest Weigh(uint64_t origin, size_t begin, size_t end) const {
    ChangeDigest digest;
    ElementWeigher weigher(*job_.map, job_.tensor_keys);
    weigher.Add(origin, std::span<const uint32_t>(scratch_.offsets).subspan(begin, end - begin),
                scratch_.olds.data() + begin * kUnitBytes, scratch_.xors.data() + begin * kUnitBytes, &digest);
    return digest;
  }

  // The non-zero bytes of changes [begin, end), positions from the frame's start, which is `shift` elements past the offsets'.
  SparseMask MaskOf(uint64_t mask_bytes, uint32_t shift, size_t begin, size_t end) {
    if (kUnitBytes == 1 && shift == 0) {
      return {mask_bytes, std::span(scratch_.offsets).subspan(begin, end - begin), scratch_.xors.data() + begin};
    }
    scratch_.byte_positions.resize((end - begin) * kUnitBytes);
    scratch_.byte_values.resize((end - begin) * kUnitBytes);
    size_t count = 0;
    for (size_t i = begin; i < end; ++i) {
      for (uint32_t k = 0; k < kUnitBytes; ++k) {
        const uint8_t value = scratch_.xors[i * kUnitBytes + k];
        scratch_.byte_positions[count] = (scratch_.offsets[i] - shift) * kUnitBytes + k;
        scratch_.byte_values[count] = value;
        count += value != 0 ? 1 : 0;
      }
    }
    return {mask_bytes, std::span(scratch_.byte_positions).first(count), scratch_.byte_values.data()};
  }

  const FrameJob& job_;
  FrameGrid grid_;
  EncodedStretch result_;
  FrameScratch& scratch_;
};

}  // namespace

std::unique_ptr<FrameScratch> MakeFrameScratch(const FrameJob& job) {
  const uint32_t unit_bytes = job.map->unit_bytes();
  auto scratch = std::make_unique<FrameScratch>();
  scratch->window.Reserve(unit_bytes, job.source->has_values());
  scratch->target =
      std::make_unique_for_overwrite<uint8_t[]>(job.inner->MaxInnerBytes(job.frame_elements * unit_bytes) + kInnerSlackBytes);
  return scratch;
}

Result<EncodedStretch> EncodeStretch(const FrameJob& job, const ElementRange& stretch, FrameScratch* scratch) {
  return WithUnit(job.map->unit_bytes(), [&]<typename Unit>() -> Result<EncodedStretch> {
    StretchEncoder<sizeof(Unit)> encoder(job, scratch);
    XORBIT_RETURN_IF_ERROR(encoder.Run(stretch));
    return encoder.Take();
  });
}

}  // namespace xorbit
