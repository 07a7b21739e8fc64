// A checkpoint's files on their way into a store, as an anchor, and out of it again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "journey/journey.h"
#include "store/anchor.h"
#include "tensor/checkpoint.h"

namespace xorbit {

// The weights and the small files that a model needs beside them.
class AnchorFiles {
 public:
  // kRefused, naming the file, if one cannot be stored under its name: to be asked before anything is written. `checkpoint`
  // must outlive the object.
  static Result<AnchorFiles> Of(const Checkpoint& checkpoint);
  // Stores them as the whole of a version whose state they hold. May be repeated.
  Status Store(Stream& stream, uint64_t version) const { return PutAnchor(stream, version, files_); }
  // The same as version 0 of a stream that is yet to be created with this state.
  Status StoreFirst(ObjectStore& store, std::string_view stream_id, const StateDigest& base) const {
    return PutFirstAnchor(store, stream_id, base, files_);
  }

 private:
  std::vector<MappedFile> others_;
  std::vector<AnchorSource> files_;
};

// Fetches version `version` whole into the new folder `folder`, which appears when all of it was verified. Returns the bytes.
Result<uint64_t> FetchAnchor(const Runtime& runtime, Stream& stream, uint64_t version, const fs::path& folder);

struct FetchedAnchor {
  uint64_t version = 0;
  uint64_t byte_count = 0;
};

// The first of these that is whole: collectors remove anchors, and one may be damaged. The first one's error if none is.
Result<FetchedAnchor> FetchFirstWhole(const Runtime& runtime, Stream& stream, std::span<const uint64_t> versions,
                                      const fs::path& folder);

}  // namespace xorbit
