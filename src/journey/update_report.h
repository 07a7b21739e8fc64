// Measures an update without sending it: how many elements change, where, by what, and what each codec would make of it.
#pragma once

#include <string>
#include <vector>

#include "change/change_statistics.h"
#include "journey/journey.h"

namespace xorbit {

struct TensorChange {
  uint32_t tensor_index = 0;
  uint64_t element_count = 0;
  uint64_t change_count = 0;
};

struct CodecSize {
  CodecId codec = CodecId::kSparse;
  uint64_t payload_bytes = 0;  // the whole .xob file
  double encode_seconds = 0;   // diff included
};

struct UpdateReport {
  std::vector<ChangeStatistics> by_unit;  // one for each unit size present, ascending
  std::vector<TensorChange> tensors;      // layout order
  uint64_t change_count = 0;
  uint64_t element_count = 0;
  double entropy_bits = 0;  // positions and values
  std::vector<CodecSize> codecs;
};

// kRefused if the layouts differ. Encodes once per codec in `codecs`, in memory.
Result<UpdateReport> MeasureUpdate(const Runtime& runtime, const Checkpoint& old_checkpoint, const Checkpoint& new_checkpoint,
                                   const std::vector<CodecId>& codecs, const EncodeOptions& encode);

// The same of two states of one layout in memory.
Result<UpdateReport> MeasureUpdate(const Runtime& runtime, const Layout& layout, TensorBytes old_bytes, TensorBytes new_bytes,
                                   const std::vector<CodecId>& codecs, const EncodeOptions& encode);

}  // namespace xorbit
