// Codecs at the speed of this machine's vector instructions. They write and accept exactly the bytes of the portable ones.
#pragma once

#include "base/cpu_level.h"
#include "codec/codec.h"

namespace xorbit {

// The codec with the kernels of `level`, which this machine must be able to run; the portable codec where that level has
// nothing faster. Null if the codec is unknown. Static lifetime.
const Codec* CpuCodec(CodecId id, CpuLevel level = ActiveCpuLevel());

}  // namespace xorbit
