// What a trainer rank of `xorbit bench --ranks` does on its device for every version: two states of its part, the difference
// encoded, the old state brought forward. Planned once, as by who encodes every step.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace xorbit {

struct SentPart {
  EncodedOwner owner;   // what Backend::EncodeDiff would give, one segment
  double encode_s = 0;  // diff and encode, until sizes were known; of mask codecs until inner frames were in host memory
  double copy_out_s =
      0;  // to page-locked memory, and from there into memory of the owner's; of mask codecs hashes and Zstd too
};

// One thread.
class PartSender {
 public:
  PartSender() = default;
  PartSender(const PartSender&) = delete;
  PartSender& operator=(const PartSender&) = delete;
  virtual ~PartSender() = default;

  virtual Result<SentPart> Encode() = 0;
  // Makes the old state the new one. Only after Encode, once.
  virtual Status BringForward() = 0;
};

// Both states are images of `map`, in the memory of `device`, and outlive the sender, as does the map. Room for `change_count`
// changes. kUnsupported in a build without CUDA, and for the codec zstd.
Result<std::unique_ptr<PartSender>> MakePartSender(int device, const Layout& layout, const SegmentMap& map,
                                                   ConstBytes old_state, ConstBytes new_state, uint64_t change_count,
                                                   CodecId codec = CodecId::kSparse);

}  // namespace xorbit
