#include "publish/baseline.h"

#include <cassert>
#include <cstring>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/unit.h"

namespace xorbit {
namespace {

constexpr uint64_t kCopyWindows = 64;  // windows a thread copies or changes at a time

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

OldState Baseline::state() const {
  OldState state = {bytes_, digest_, {}};
  if (due_ != nullptr) state.due = due_->changes;
  return state;
}

const std::vector<SegmentBytes>& Baseline::bytes() const {
  assert(due_ == nullptr);
  return bytes_;
}

StateDigest Baseline::Scan(const Backend& backend, const Layout& layout, int threads) const {
  assert(due_ == nullptr);
  StateDigest digest;
  for (size_t i = 0; i < maps_.size(); ++i) {
    for (const StateDigest& part : backend.DigestParts(layout, maps_[i], bytes_[i], threads)) digest += part;
  }
  return digest;
}

Status Baseline::TakeDue(int threads) {
  if (due_ == nullptr) return {};
  for (const std::unique_ptr<DueChanges>& changes : due_->changes) XORBIT_RETURN_IF_ERROR(changes->TakeAll(threads));
  due_.reset();
  return {};
}

Status Baseline::Forward(const Backend& backend, const Layout& layout, Buffer payload, int threads) {
  assert(digest_);
  XORBIT_RETURN_IF_ERROR(TakeDue(threads));
  auto due = std::make_unique<DuePayload>();
  due->bytes = std::move(payload);
  XORBIT_ASSIGN_OR_RETURN(due->view, ParsePayload(layout, due->bytes));
  assert(due->view.segments.size() == maps_.size());
  for (size_t i = 0; i < maps_.size(); ++i) {
    const PayloadSegment& segment = due->view.segments[i];
    assert(segment.map.unit_bytes() == maps_[i].unit_bytes() && segment.map.parts() == maps_[i].parts());
    XORBIT_ASSIGN_OR_RETURN(auto decoder, backend.Open(due->view, segment));
    due->changes.push_back(std::make_unique<DueChanges>(segment.map, std::move(decoder), images_[i]));
  }
  *digest_ += due->view.change();
  due_ = std::move(due);
  return {};
}

Status Baseline::Forward(size_t index, const ChangeSource& changes, int threads) {
  XORBIT_RETURN_IF_ERROR(TakeDue(threads));
  digest_.reset();
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
          XorUnit<Unit>(base + size_t{window.positions[i]} * sizeof(Unit), window.xors.data() + i * sizeof(Unit));
        }
      });
    }
    return {};
  });
}

}  // namespace xorbit
