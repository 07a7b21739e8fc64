#include "backend/cpu/digest_scan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Bytes a thread takes at a time: large against the cost of a start, small against a thread's share.
constexpr uint64_t kScanPieceBytes = uint64_t{4} << 20;

// Part of one block: the kernel sees it as a whole block of zeros otherwise, which add nothing.
void AddPartOfBlock(const CpuKernels& kernels, uint64_t tensor_key, uint64_t offset_bytes, ConstBytes bytes, DigestSums* sums) {
  uint8_t block[kDigestBlockBytes] = {};
  std::memcpy(block + offset_bytes % kDigestBlockBytes, bytes.data(), bytes.size());
  kernels.digest_blocks(tensor_key, offset_bytes / kDigestBlockBytes, block, 1, sums);
}

// The tensors of a scan laid end to end, so that pieces of equal size can be cut whatever the tensors' sizes.
struct ScanTensor {
  uint64_t start_bytes;  // in the scan
  uint64_t key;
  ConstBytes bytes;
};

StateDigest ScanPiece(const CpuKernels& kernels, const std::vector<ScanTensor>& tensors, uint64_t first_byte,
                      uint64_t end_byte) {
  DigestSums sums;
  auto tensor = std::upper_bound(tensors.begin(), tensors.end(), first_byte,
                                 [](uint64_t byte, const ScanTensor& t) { return byte < t.start_bytes; });
  --tensor;
  for (; first_byte < end_byte; ++tensor) {
    const uint64_t offset = first_byte - tensor->start_bytes;
    const uint64_t count = std::min(tensor->bytes.size() - offset, end_byte - first_byte);
    AddRange(kernels, tensor->key, offset, tensor->bytes.subspan(offset, count), &sums);
    first_byte += count;
  }
  return sums.Finish();
}

}  // namespace

StateDigest SumDigests(int threads, uint64_t count, const std::function<StateDigest(uint64_t index)>& digest_of) {
  std::mutex mutex;
  StateDigest digest;  // guarded by mutex
  const Status status = ParallelFor(threads, count, [&](uint64_t index) {
    const StateDigest sum = digest_of(index);
    const std::lock_guard lock(mutex);
    digest += sum;
    return Status();
  });
  assert(status.ok());
  static_cast<void>(status);
  return digest;
}

void AddRange(const CpuKernels& kernels, uint64_t tensor_key, uint64_t offset_bytes, ConstBytes bytes, DigestSums* sums) {
  const uint64_t in_block = offset_bytes % kDigestBlockBytes;
  if (in_block != 0 && !bytes.empty()) {
    const uint64_t head_bytes = std::min<uint64_t>(kDigestBlockBytes - in_block, bytes.size());
    AddPartOfBlock(kernels, tensor_key, offset_bytes, bytes.first(head_bytes), sums);
    offset_bytes += head_bytes;
    bytes = bytes.subspan(head_bytes);
  }
  const uint64_t block_count = bytes.size() / kDigestBlockBytes;
  if (block_count > 0) kernels.digest_blocks(tensor_key, offset_bytes / kDigestBlockBytes, bytes.data(), block_count, sums);
  const ConstBytes tail = bytes.subspan(block_count * kDigestBlockBytes);
  if (!tail.empty()) AddPartOfBlock(kernels, tensor_key, offset_bytes + block_count * kDigestBlockBytes, tail, sums);
}

StateDigest ScanDigest(const Layout& layout, std::span<const ConstBytes> tensors, ScanScope scope, int threads) {
  std::vector<ScanTensor> scanned;
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    assert(tensors[i].size() == tensor.byte_count);
    if (tensor.byte_count == 0 || (scope == ScanScope::kFrozen && !tensor.frozen)) continue;
    scanned.push_back({total_bytes, TensorKeyOf(tensor.name), tensors[i]});
    total_bytes += tensor.byte_count;
  }
  const CpuKernels& kernels = KernelsOf(ActiveCpuLevel());
  return SumDigests(threads, DivideRoundUp(total_bytes, kScanPieceBytes), [&](uint64_t piece) {
    const uint64_t first_byte = piece * kScanPieceBytes;
    return ScanPiece(kernels, scanned, first_byte, std::min(first_byte + kScanPieceBytes, total_bytes));
  });
}

std::vector<StateDigest> DigestSegmentParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                            int threads) {
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  const CpuKernels& kernels = KernelsOf(ActiveCpuLevel());
  const uint64_t unit_bytes = map.unit_bytes();
  const uint64_t step = kScanPieceBytes / unit_bytes;
  std::mutex mutex;
  std::vector<StateDigest> digests(map.parts().size());  // guarded by mutex
  const auto add_piece = [&](uint64_t piece) {
    const uint64_t first = piece * step;
    RunWalker walker(map, first, std::min(step, map.element_count() - first));
    std::vector<std::pair<uint32_t, DigestSums>> sums;  // by part
    Run run;
    while (walker.Next(&run)) {
      if (sums.empty() || sums.back().first != run.part_index) sums.emplace_back(run.part_index, DigestSums());
      AddRange(kernels, tensor_keys[run.tensor_index], run.tensor_element * unit_bytes, bytes.Of(run), &sums.back().second);
    }
    const std::lock_guard lock(mutex);
    for (const auto& [part, sum] : sums) digests[part] += sum.Finish();
    return Status();
  };
  const Status status = ParallelFor(threads, DivideRoundUp(map.element_count(), step), add_piece);
  assert(status.ok());
  static_cast<void>(status);
  return digests;
}

}  // namespace xorbit
