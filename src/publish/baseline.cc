#include "publish/baseline.h"

#include <cassert>
#include <cstring>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/unit.h"

namespace xorbit {
namespace {

constexpr uint64_t kCopyWindows = 64;    // windows a thread copies or changes at a time
constexpr uint64_t kRecordsAtOnce = 16;  // records a thread decodes with one scratch memory

template <typename Unit>
void XorElement(uint8_t* at, const uint8_t* mask) {
  StoreLe<Unit>(at, static_cast<Unit>(LoadLe<Unit>(at) ^ LoadLe<Unit>(mask)));
}

void XorRecord(const RecordInfo& info, const DecodedRecord& record, uint32_t unit_bytes, MutableBytes image) {
  WithUnit(unit_bytes, [&]<typename Unit>() {
    uint8_t* first = image.data() + info.first * sizeof(Unit);
    for (uint64_t i = 0; i < record.count; ++i) {
      XorElement<Unit>(first + uint64_t{record.offsets[i]} * sizeof(Unit), record.xors.data() + i * sizeof(Unit));
    }
  });
}

}  // namespace

Baseline Baseline::CopyOf(std::span<const SegmentMap> maps, TensorBytes tensors, int threads) {
  Baseline baseline;
  baseline.maps_ = maps;
  for (const SegmentMap& map : maps) {
    Buffer image(map.byte_count());
    const SegmentBytes source = SegmentBytes::InTensors(map, tensors);
    const uint64_t step = kCopyWindows * kWindowElements;
    const Status status = ParallelFor(threads, DivideRoundUp(map.element_count(), step), [&](uint64_t index) -> Status {
      RunWalker walker(map, index * step, std::min(step, map.element_count() - index * step));
      Run run;
      while (walker.Next(&run)) {
        const ConstBytes bytes = source.Of(run);
        std::memcpy(image.data() + run.segment_element * map.unit_bytes(), bytes.data(), bytes.size());
      }
      return {};
    });
    assert(status.ok());
    static_cast<void>(status);
    baseline.images_.push_back(std::move(image));
    baseline.bytes_.push_back(SegmentBytes::InImage(map, baseline.images_.back()));  // moving a vector keeps its memory
  }
  return baseline;
}

Status Baseline::Forward(const Backend& backend, const PayloadView& payload, int threads) {
  for (const PayloadSegment& segment : payload.segments) {
    size_t index = 0;
    while (index < maps_.size() &&
           (maps_[index].group() != segment.map.group() || maps_[index].unit_bytes() != segment.map.unit_bytes())) {
      ++index;
    }
    assert(index < maps_.size() && maps_[index].parts() == segment.map.parts());
    XORBIT_ASSIGN_OR_RETURN(const auto decoder, backend.Open(payload, segment));
    const uint64_t record_count = decoder->record_count();
    XORBIT_RETURN_IF_ERROR(ParallelFor(threads, DivideRoundUp(record_count, kRecordsAtOnce), [&](uint64_t stretch) -> Status {
      DecodedRecord record;
      const uint64_t end = std::min(record_count, (stretch + 1) * kRecordsAtOnce);
      for (uint64_t i = stretch * kRecordsAtOnce; i < end; ++i) {
        XORBIT_RETURN_IF_ERROR(decoder->Decode(i, &record));
        XorRecord(decoder->info(i), record, segment.map.unit_bytes(), images_[index]);
      }
      return {};
    }));
  }
  return {};
}

Status Baseline::Forward(size_t index, const ChangeSource& changes, int threads) {
  const uint32_t unit_bytes = maps_[index].unit_bytes();
  const uint64_t window_count = WindowCountOf(changes.element_count());
  return ParallelFor(threads, DivideRoundUp(window_count, kCopyWindows), [&](uint64_t stretch) -> Status {
    const uint64_t first = stretch * kCopyWindows;
    const uint64_t count = std::min(kCopyWindows, window_count - first);
    WindowChanges window;
    window.Reserve(unit_bytes, changes.has_values());
    const auto cursor = changes.Open(first, count);
    for (uint64_t w = first; w < first + count; ++w) {
      XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
      WithUnit(unit_bytes, [&]<typename Unit>() {
        uint8_t* base = images_[index].data() + w * kWindowElements * sizeof(Unit);
        for (uint32_t i = 0; i < window.count; ++i) {
          XorElement<Unit>(base + size_t{window.positions[i]} * sizeof(Unit), window.xors.data() + i * sizeof(Unit));
        }
      });
    }
    return {};
  });
}

}  // namespace xorbit
