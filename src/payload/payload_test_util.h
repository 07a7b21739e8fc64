// Small layouts and made-up segments for the tests of this floor: records are opaque here, so any bytes will do.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "payload/manifest.h"
#include "payload/payload_writer.h"
#include "tensor/ownership.h"
#include "tensor/tensor_test_util.h"

namespace xorbit::testing_payload {

// Two presence groups, three units, an empty and a frozen tensor.
inline Layout SmallLayout() {
  return MakeLayout({Tensor("a.bias", Dtype::kBF16, {7}), Tensor("a.weight", Dtype::kBF16, {6, 8}),
                     Tensor("b.empty", Dtype::kF32, {0, 4}), Tensor("c.fp4", Dtype::kF4, {4, 16}),
                     Tensor("d.draft", Dtype::kBF16, {4, 4}, 1), Tensor("e.frozen", Dtype::kI64, {9}, 0, true)},
                    {"model", "draft"});
}

inline Buffer RandomBytes(std::mt19937_64& random, size_t byte_count) {
  Buffer bytes(byte_count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// A segment of `record_bytes.size()` records, each that long in the body and changing one element.
inline EncodedSegment MadeUpSegment(std::mt19937_64& random, const std::vector<size_t>& record_bytes, bool has_digests = true) {
  EncodedSegment segment;
  segment.tables = RandomBytes(random, random() % 20);
  segment.records = RandomBytes(random, record_bytes.size() * 40);
  segment.outer = RandomBytes(random, random() % 20);
  segment.record_count = segment.change_count = record_bytes.size();
  segment.has_digests = has_digests;
  uint64_t at = 0;
  for (const size_t byte_count : record_bytes) {
    at += byte_count;
    segment.cuts.push_back(at);
    segment.body.push_back(RandomBytes(random, byte_count));
  }
  if (has_digests && !record_bytes.empty()) segment.change = {random(), random()};
  return segment;
}

inline Payload MadeUpPayload(const Layout& layout, const std::vector<SegmentMap>& maps, PayloadInfo info, uint64_t seed,
                             bool has_digests = true) {
  std::mt19937_64 random(seed);
  std::vector<EncodedSegment> segments;
  for (size_t i = 0; i < maps.size(); ++i) segments.push_back(MadeUpSegment(random, {5 + i, 3}, has_digests));
  auto payload = WritePayload(layout, info, maps, std::move(segments), 1);
  EXPECT_TRUE(payload.ok()) << payload.status().message();
  return std::move(payload).value();
}

// A delta of made-up payloads, split by columns.
struct MadeUpDelta {
  Layout layout;
  std::vector<Payload> payloads;
  Manifest manifest;
};

inline MadeUpDelta MakeDelta(uint32_t owner_count, bool has_digests = true) {
  MadeUpDelta delta{SmallLayout(), {}, {}};
  const auto owners = PlanOwners(delta.layout, owner_count, Split::kColumn);
  EXPECT_TRUE(owners.ok());
  const StateDigest base{0x1111, 0x2222};
  StateDigest target = base;
  for (uint32_t owner = 0; owner < owner_count; ++owner) {
    delta.payloads.push_back(
        MadeUpPayload(delta.layout, (*owners)[owner], {CodecId::kSparse, owner, owner_count}, owner + 1, has_digests));
    target += delta.payloads.back().change;
  }
  if (!has_digests) target = {0x3333, 0x4444};
  auto manifest = SealManifest(delta.layout, delta.payloads, base, target);
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  delta.manifest = std::move(manifest).value();
  return delta;
}

}  // namespace xorbit::testing_payload
