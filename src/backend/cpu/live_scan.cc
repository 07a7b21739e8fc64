#include "backend/cpu/live_scan.h"

#include <algorithm>
#include <vector>

#include "backend/cpu/digest_scan.h"
#include "backend/cpu/kernels.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Live bytes a task reads: large against the cost of a start, small against a thread's share.
constexpr uint64_t kTaskBytes = uint64_t{4} << 20;

// Granules [first, end) of a box, counted in canonical order, and the bytes that hold them.
struct ScanTask {
  uint64_t tensor_key;
  const PieceClass* shape;
  uint64_t canonical_origin;
  uint64_t origin;    // in `bytes`
  bool is_canonical;  // `bytes` are a whole canonical tensor: its strides are the canonical ones
  ConstBytes bytes;
  uint64_t first;
  uint64_t end;
};

// Granules of half a byte whose halves do not lie as they do in the tensor, put in their places; the others are zero and add
// nothing.
void AddHalfBytes(const CpuKernels& kernels, const ScanTask& task, uint64_t canonical, uint64_t at, uint64_t count,
                  DigestSums* sums) {
  Buffer bytes((canonical % 2 + count + 1) / 2);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t half = (task.bytes[(at + i) / 2] >> ((at + i) % 2 * 4)) & 15U;
    bytes[(canonical % 2 + i) / 2] |= static_cast<uint8_t>(half << ((canonical + i) % 2 * 4));
  }
  AddRange(kernels, task.tensor_key, canonical / 2, bytes, sums);
}

void AddRun(const CpuKernels& kernels, const ScanTask& task, uint64_t canonical, uint64_t at, uint64_t count,
            DigestSums* sums) {
  const uint32_t bits = task.shape->granule_bits;
  if (bits < 8 && (canonical % 2 != 0 || at % 2 != 0 || count % 2 != 0)) {
    return AddHalfBytes(kernels, task, canonical, at, count, sums);
  }
  const auto bytes_of = [bits](uint64_t granules) { return bits < 8 ? granules / 2 : granules * (bits / 8); };
  AddRange(kernels, task.tensor_key, bytes_of(canonical), task.bytes.subspan(bytes_of(at), bytes_of(count)), sums);
}

StateDigest RunTask(const CpuKernels& kernels, const ScanTask& task) {
  const PieceClass& shape = *task.shape;
  const uint64_t run_length = shape.run_length();
  DigestSums sums;
  for (uint64_t index = task.first; index < task.end;) {
    const uint64_t in_run = index % run_length;
    const uint64_t count = std::min(run_length - in_run, task.end - index);
    uint64_t rest = index / run_length;
    uint64_t canonical = task.canonical_origin + in_run;
    uint64_t at = task.origin + in_run;
    for (uint32_t i = shape.digit_count - 1; i-- > 0;) {
      const LiveDigit& digit = shape.digits[i];
      canonical += rest % digit.count * digit.canonical_stride;
      at += rest % digit.count * (task.is_canonical ? digit.canonical_stride : digit.live_stride);
      rest /= digit.count;
    }
    AddRun(kernels, task, canonical, at, count, &sums);
    index += count;
  }
  return sums.Finish();
}

class LiveScan {
 public:
  LiveScan(const Layout& layout, const LiveMemory& live, ScanScope scope) : layout_(layout), live_(live), map_(*live.map) {
    const std::vector<uint64_t> keys = TensorKeysOf(layout);
    whole_.resize(layout.tensors().size());
    for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
      const TensorSpec& tensor = layout.tensors()[i];
      if (tensor.byte_count == 0 || map_.is_absent(tensor.group) || (scope == ScanScope::kFrozen && !tensor.frozen)) continue;
      AddTensor(i, keys[i]);
    }
  }

  StateDigest Sum(int threads) const {
    const CpuKernels& kernels = KernelsOf(ActiveCpuLevel());
    return SumDigests(threads, tasks_.size(), [&](uint64_t i) { return RunTask(kernels, tasks_[i]); });
  }

 private:
  // What live_proofs.cc calls counted.
  void AddTensor(uint32_t tensor_index, uint64_t key) {
    const uint32_t placed = map_.alias_of(tensor_index).value_or(tensor_index);
    for (const Piece& piece : map_.pieces_of(placed)) {
      if (!piece.counted) continue;
      Cut({key, &map_.class_of(piece), piece.origin, piece.live_origin, false, live_.regions[piece.region_index], 0, 0});
    }
    const std::span<const ShadowBinding> shadows = map_.shadows_of(placed);
    for (const ShadowBinding& shadow : shadows) {
      const Piece& piece = shadow.piece;
      if (piece.counted) Cut({key, &map_.class_of(piece), piece.origin, piece.origin, true, KeptCopy(placed), 0, 0});
    }
    if (!shadows.empty() || !map_.pieces_of(placed).empty()) return;
    const std::span<const DerivedBinding> derived = map_.derived_of(placed);
    if (derived.empty() || !derived.front().counted) return;
    PieceClass& whole = whole_[tensor_index];
    whole = {.granule_bits = 8, .digit_count = 1, .digits = {LiveDigit{layout_.tensors()[placed].byte_count, 1, 1}}};
    Cut({key, &whole, 0, 0, true, KeptCopy(placed), 0, 0});
  }

  ConstBytes KeptCopy(uint32_t tensor_index) const { return live_.kept[map_.kept_index_of(tensor_index).value()]; }

  void Cut(ScanTask task) {
    const uint64_t count = task.shape->granule_count();
    const uint64_t step = kTaskBytes * 8 / task.shape->granule_bits;
    for (task.first = 0; task.first < count; task.first = task.end) {
      task.end = std::min(count, task.first + step);
      tasks_.push_back(task);
    }
  }

  const Layout& layout_;
  const LiveMemory& live_;
  const LiveMap& map_;
  std::vector<PieceClass> whole_;  // by tensor; of kept copies that no piece describes
  std::vector<ScanTask> tasks_;
};

}  // namespace

StateDigest ScanLiveMemory(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads) {
  return LiveScan(layout, live, scope).Sum(threads);
}

}  // namespace xorbit
