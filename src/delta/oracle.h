// The oracle: diff, apply, fold and state digest as the definitions read, one element at a time.
//
// Every fast path (SIMD, threads, CUDA, codecs) is tested against these functions, so they are written to be checked by eye and
// never to be fast. "Tensors" are the tensors' canonical bytes in layout order, tensors[i] holding layout.tensors()[i].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "change/list_source.h"
#include "change/state_digest.h"
#include "tensor/layout.h"
#include "tensor/segment.h"

namespace xorbit {

// Every element of the segment whose bits differ, ascending.
std::vector<ElementChange> OracleDiff(const SegmentMap& map, std::span<const ConstBytes> old_tensors,
                                      std::span<const ConstBytes> new_tensors);

// Makes old into new. kRefused, with nothing written, if an element does not hold its old value.
Status OracleApply(const SegmentMap& map, std::span<const ElementChange> changes, std::span<const MutableBytes> tensors);

// The one list that does what `lists` do when applied in order: an element's old value is the one before the first list that
// touches it, its XOR the XOR of all; elements that end where they began are dropped. Each list ascends.
std::vector<ElementChange> OracleFold(std::span<const std::vector<ElementChange>> lists);

// The state digest of a whole layout, frozen tensors included.
StateDigest OracleDigest(const Layout& layout, std::span<const ConstBytes> tensors);

}  // namespace xorbit
