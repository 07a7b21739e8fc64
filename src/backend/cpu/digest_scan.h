// State digests of live bytes at memory speed: of one range, and of a whole layout on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/bytes.h"
#include "change/state_digest.h"
#include "tensor/layout.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// digest_of(0) + ... + digest_of(count - 1), computed on several threads.
StateDigest SumDigests(int threads, uint64_t count, const std::function<StateDigest(uint64_t index)>& digest_of);

// Adds `bytes`, which lie at byte `offset_bytes` of the tensor with this key: any offset, any length, any alignment. Equal to
// DigestOfRange once finished.
void AddRange(const CpuKernels& kernels, uint64_t tensor_key, uint64_t offset_bytes, ConstBytes bytes, DigestSums* sums);

// The digest of a layout's tensors; tensors[i] are the canonical bytes of layout.tensors()[i]. Does not depend on `threads`.
StateDigest ScanDigest(const Layout& layout, std::span<const ConstBytes> tensors, ScanScope scope, int threads);

// The digest of each of a segment's parts, wherever their bytes lie. Does not depend on `threads`.
std::vector<StateDigest> DigestSegmentParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                            int threads);

}  // namespace xorbit
