// What an engine tells of memory that others may write (docs/formats/attachment.md): the file that `xorbit serve --attach`
// reads. The reader trusts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

inline constexpr uint32_t kAttachmentVersion = 1;
inline constexpr uint64_t kMaxAttachmentBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxAttachmentPlaces = 4'000'000;

// Memory that the engine holds in one piece.
struct ExportedSegment {
  enum class Kind : uint8_t {
    kSharedMemory,  // POSIX
    kCudaIpc,       // of a device
  } kind = Kind::kSharedMemory;
  std::string name;    // of shared memory: as in shm_open. Of a device: cudaIpcMemHandle_t in hexadecimal
  std::string device;  // of a device: its UUID in hexadecimal
  uint64_t byte_count = 0;
  friend bool operator==(const ExportedSegment&, const ExportedSegment&) = default;
};

struct ExportedPlace {
  std::string name;  // a region of the live map, or a tensor whose canonical copy is kept
  uint32_t segment_index = 0;
  uint64_t offset_bytes = 0;
  friend bool operator==(const ExportedPlace&, const ExportedPlace&) = default;
};

struct Attachment {
  std::string live_map;  // a file, beside this one if the path is relative
  std::vector<ExportedSegment> segments;
  ExportedPlace gate;       // EngineGate; the name is not used
  ExportedPlace undo;       // UndoMemory, likewise
  uint64_t undo_bytes = 0;  // 0: there is none
  std::vector<ExportedPlace> regions;
  std::vector<ExportedPlace> kept;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

// Deterministic: equal attachments, equal bytes.
std::string WriteAttachmentJson(const Attachment& attachment);

// kCorrupt: longer than kMaxAttachmentBytes, malformed, mistyped or missing fields, rows of another length, names that come
// twice, segments that are not in the list. kUnsupported: another format version, an unknown kind of segment or critical field.
// Names, sizes and handles are for whoever opens them to check.
Result<Attachment> ParseAttachmentJson(std::string_view text);

}  // namespace xorbit
