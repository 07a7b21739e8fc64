// The `lz4` codec's decoder on arbitrary inner frames.
#include "mask_segment.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xorbit::FuzzInnerFrame(*xorbit::FindCodec("lz4"), {data, size});
  return 0;
}
