// Payload heads against a fixed small layout. What is accepted must hold together: its maps refer to the layout only, and its
// parts say the same again when they are written anew.
#include <cstdlib>
#include <vector>

#include "payload/parts.h"
#include "payload/payload_reader.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

const Layout& FixedLayout() {
  static const Layout layout = [] {
    std::vector<TensorSpec> tensors(5);
    tensors[0] = {"a.bias", Dtype::kBF16, {7}, 0, 0, false};
    tensors[1] = {"a.weight", Dtype::kBF16, {6, 8}, 0, 0, false};
    tensors[2] = {"c.fp4", Dtype::kF4, {4, 16}, 0, 0, false};
    tensors[3] = {"d.draft", Dtype::kBF16, {4, 4}, 0, 1, false};
    tensors[4] = {"e.frozen", Dtype::kI64, {9}, 0, 0, true};
    return Layout::Make(std::move(tensors), {"model", "draft"}).value();
  }();
  return layout;
}

// A search does not find a layout digest: it is put in, and so are the lengths that must add up to the size.
Buffer Prepare(const uint8_t* data, size_t size) {
  Buffer bytes(data, data + size);
  if (size < sizeof(PayloadHeader)) return bytes;
  const Sha256Digest& digest = FixedLayout().digest();
  std::copy(digest.begin(), digest.end(), bytes.begin() + offsetof(PayloadHeader, layout_digest));
  const auto head_bytes = LoadLe<uint64_t>(bytes.data() + offsetof(PayloadHeader, head_bytes));
  if (head_bytes <= size) StoreLe<uint64_t>(bytes.data() + offsetof(PayloadHeader, body_bytes), size - head_bytes);
  return bytes;
}

void CheckAccepted(const PayloadView& payload) {
  const Layout& layout = FixedLayout();
  uint64_t body_bytes = 0;
  uint64_t change_count = 0;
  std::vector<const SegmentMap*> maps;
  for (const PayloadSegment& segment : payload.segments) {
    body_bytes += segment.view.body.size();
    change_count += segment.view.change_count;
    maps.push_back(&segment.map);
    const Buffer parts = EncodeParts(layout, segment.map);
    const auto again = DecodeParts(layout, segment.map.unit_bytes(), segment.map.group(), parts);
    Require(again.ok() && again->parts() == segment.map.parts() && EncodeParts(layout, *again) == parts);
  }
  Require(body_bytes == payload.body.size());
  Require(change_count == payload.header.change_count);
  Require(ProveCoverage(layout, maps).code() != Code::kUnsupported);  // the layout is too small for that
  (void)VerifyChunks(payload, 1);
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const xorbit::Buffer bytes = xorbit::Prepare(data, size);
  const auto payload = xorbit::ParsePayload(xorbit::FixedLayout(), bytes);
  if (payload.ok()) xorbit::CheckAccepted(*payload);
  return 0;
}
