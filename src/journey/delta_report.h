// What a delta holds, tensor by tensor.
#pragma once

#include <vector>

#include "journey/journey.h"

namespace xorbit {

struct TensorReport {
  uint32_t tensor_index = 0;
  uint64_t element_count = 0;
  uint64_t change_count = 0;
  double body_bytes = 0;  // its share of the encoded bytes, by changes
};

// One entry per tensor of the layout, in layout order. Decodes everything once, so it also proves that the delta decodes.
Result<std::vector<TensorReport>> ReportTensors(const Runtime& runtime, const Delta& delta);

}  // namespace xorbit
