// A delta at hand: its manifest, its layout and its payloads, checked against each other, wherever their bytes come from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "base/file.h"
#include "payload/manifest.h"
#include "payload/payload_reader.h"

namespace xorbit {

// A payload's bytes: a mapped file, or memory into which it was fetched. Moving it does not move the bytes.
class PayloadBytes {
 public:
  explicit PayloadBytes(MappedFile file) : storage_(std::move(file)) {}
  explicit PayloadBytes(Buffer buffer) : storage_(std::move(buffer)) {}
  ConstBytes bytes() const {
    if (const Buffer* buffer = std::get_if<Buffer>(&storage_)) return *buffer;
    return std::get<MappedFile>(storage_).bytes();
  }

 private:
  std::variant<MappedFile, Buffer> storage_;
};

// Plain data, immutable while in use.
struct Delta {
  fs::path folder;  // or the keys' common part in a store: where messages say it is
  Manifest manifest;
  Layout layout;
  std::vector<PayloadBytes> files;    // owner order; the views point into them
  std::vector<PayloadView> payloads;  // owner order
  uint64_t total_file_bytes = 0;      // manifest and payloads: all that a receiver with the layout at hand fetches
};

struct OpenOptions {
  int threads = 1;
  bool verify_hashes = true;  // whole-file and head SHA-256, chunk SHA-256
  // The files hold their payloads' heads and nothing else: bodies are then fetched and verified chunk by chunk (portions.h),
  // and no hash is compared but the heads'.
  bool heads_only = false;
};

// Puts a delta together: everything is checked that can be checked without decoding, unless told otherwise. An error names the
// file if anything does not match: sizes, hashes, layout, payload heads against the manifest, the owners' changes against
// target - base, and ownership: the owners' parts cover the layout's tensors (less frozen and empty ones) exactly once.
// total_file_bytes counts the payloads alone.
Result<Delta> OpenDelta(fs::path folder, Manifest manifest, Layout layout, std::vector<PayloadBytes> files,
                        const OpenOptions& options);

}  // namespace xorbit
