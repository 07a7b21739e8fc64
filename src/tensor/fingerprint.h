// The identity of a base model, whatever its files are called and however they are cut.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/sha256.h"
#include "tensor/layout.h"

namespace xorbit {

// SHA-256 over the tensors' SHA-256s in layout order; tensors[i] are the canonical bytes of layout.tensors()[i]. Reads
// everything once, on `threads` threads: done once in a stream's life.
Sha256Digest BaseFingerprint(const Layout& layout, std::span<const ConstBytes> tensors, int threads);

}  // namespace xorbit
