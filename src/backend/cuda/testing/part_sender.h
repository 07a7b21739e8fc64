// What a trainer rank of `xorbit bench --ranks` does on its device for every version: two states of its part, the difference
// encoded, the old state brought forward. Planned once, as by who encodes every step.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace xorbit {

// One thread.
class PartSender {
 public:
  PartSender() = default;
  PartSender(const PartSender&) = delete;
  PartSender& operator=(const PartSender&) = delete;
  virtual ~PartSender() = default;

  // What Backend::EncodeDiff would write, one segment, and its base. The bytes are in host memory when it returns.
  virtual Result<EncodedOwner> Encode() = 0;
  // Makes the old state the new one. Only after Encode, once.
  virtual Status BringForward() = 0;
};

// Both states are images of `map`, in the memory of `device`, and outlive the sender, as does the map. Room for `change_count`
// changes. kUnsupported in a build without CUDA.
Result<std::unique_ptr<PartSender>> MakePartSender(int device, const Layout& layout, const SegmentMap& map,
                                                   ConstBytes old_state, ConstBytes new_state, uint64_t change_count);

}  // namespace xorbit
