// Writes a weight_vNNNNNN delta folder for Miles, slime and stitch receivers. docs/formats/interchange.md.
#pragma once

#include <cstdint>
#include <span>

#include "base/file.h"
#include "interchange/miles_index.h"
#include "tensor/layout.h"

namespace xorbit {

struct MilesWriteOptions {
  uint64_t base_version = 0;
  uint64_t version = 1;
  MilesEncoding encoding = MilesEncoding::kXor;
  ChecksumFormat checksum_format = ChecksumFormat::kXxh128;
  int zstd_level = 1;        // what the original tools use
  uint32_t owner_count = 1;  // one payload file for each owner that has changes
  int threads = 1;
};

struct MilesWriteReport {
  uint64_t total_file_bytes = 0;
  uint64_t changed_tensor_count = 0;
};

// Writes `folder` whole or not at all, and never over an existing one (kExists): a temporary sibling, fsync of every file and
// of the folder, then a rename that does not replace. On an error the temporary folder is removed. `olds` and `news` hold all
// tensors in layout order. Tensors without changes are absent; without any change only the index is written. Memory is bounded
// by threads x (compressed tensor + 1 MiB), never by the sum of the masks. The same input gives the same bytes whatever the
// threads. kRefused if a frozen tensor changes, or with kOverwrite a tensor of more than 4 GiB.
Result<MilesWriteReport> WriteMilesFolder(FileOps& ops, const fs::path& folder, const Layout& layout,
                                          std::span<const ConstBytes> olds, std::span<const ConstBytes> news,
                                          const MilesWriteOptions& options);

}  // namespace xorbit
