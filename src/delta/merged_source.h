// Fold: several sources over the same segment as one, in a single streaming pass.
//
// Changes of equal elements are XORed; those that cancel disappear. The merge works window by window in a dense accumulator (64
// Ki elements, in cache) with a bitmap of touched elements, so its cost is that of the changes plus a scan of 8 KiB a window,
// whatever the number of sources, and its memory does not depend on the length of the chain.
//
// A delta holds masks, not old values, and tile digests cannot be folded. Old values therefore come from canonical bytes, of
// the state before the first source or of the one after the last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "change/change_source.h"
#include "tensor/segment.h"

namespace xorbit {

// Canonical bytes, and which end of the chain they are. Map and bytes must outlive the source.
struct FoldValues {
  enum class Side {
    kBase,    // before the first delta: old = value
    kTarget,  // after the last: old = value ^ xor
  };
  Side side = Side::kBase;
  const SegmentMap* map = nullptr;
  std::span<const ConstBytes> tensors;  // in layout order
};

class MergedSource : public ChangeSource {
 public:
  // Takes at least one source, all of one unit and element count, else kRefused. `sources` must outlive the result. With
  // `values` the map must have that unit and element count too. That the sources really form a chain, and that the values
  // belong to its end, is the caller's to prove (by digests).
  static Result<std::unique_ptr<MergedSource>> Make(std::vector<const ChangeSource*> sources, const FoldValues* values);

  uint32_t unit_bytes() const override { return sources_.front()->unit_bytes(); }
  uint64_t element_count() const override { return sources_.front()->element_count(); }
  bool has_values() const override { return values_.map != nullptr; }
  // The cursor passes on a source's error, and answers kCorrupt if a source names an element past the segment's end.
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const override;

  const std::vector<const ChangeSource*>& sources() const { return sources_; }
  const FoldValues& values() const { return values_; }  // map is null without values

 private:
  MergedSource(std::vector<const ChangeSource*> sources, const FoldValues& values);

  std::vector<const ChangeSource*> sources_;
  FoldValues values_;
};

}  // namespace xorbit
