// What a rank published last: one copy of the weights that it owns, against which it compares the next.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// One flat image a segment. Movable; one thread at a time.
class Baseline {
 public:
  // Copies the elements of `maps`, which must outlive the baseline, out of whole tensors (a checkpoint).
  static Baseline CopyOf(std::span<const SegmentMap> maps, TensorBytes tensors, int threads);

  // Views of the images, parallel to the maps; valid while the baseline lives, also after Forward().
  const std::vector<SegmentBytes>& bytes() const { return bytes_; }

  // Takes the changes of a payload whose segments are this baseline's. XOR is its own inverse, so a failed call is undone by
  // nobody: kCorrupt only for a payload that nobody has checked.
  Status Forward(const Backend& backend, const PayloadView& payload, int threads);
  // Takes the changes of any source over segment `index`.
  Status Forward(size_t index, const ChangeSource& changes, int threads);

 private:
  std::span<const SegmentMap> maps_;
  std::vector<Buffer> images_;
  std::vector<SegmentBytes> bytes_;
};

}  // namespace xorbit
