// A random update of a random model, cut over some owners: what the tests of device code apply, on an emulated warp and on a
// GPU.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "payload/payload_reader.h"
#include "payload/payload_writer.h"
#include "tensor/ownership.h"
#include "tensor/random_model.h"

namespace xorbit::cuda::testing {

struct RandomUpdate {
  Layout layout;
  std::unique_ptr<RandomTensors> before;
  std::unique_ptr<RandomTensors> after;
  std::vector<Buffer> payload_bytes;
  std::vector<PayloadView> payloads;  // into payload_bytes
};

// Encodes before and after, for owners that share the model so.
inline Status EncodeRandomUpdate(const Backend& backend, uint32_t owner_count, Split split, RandomUpdate* update,
                                 CodecId codec = CodecId::kSparse, const EncodeOptions& options = {}) {
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(update->layout, owner_count, split));
  for (uint32_t i = 0; i < owner_count; ++i) {
    XORBIT_ASSIGN_OR_RETURN(
        EncodedOwner encoded,
        backend.EncodeDiff(update->layout, owners[i], {.bytes = InTensors(owners[i], update->before->bytes())},
                           InTensors(owners[i], update->after->bytes()), codec, options));
    XORBIT_ASSIGN_OR_RETURN(Payload payload,
                            WritePayload(update->layout, {codec, i, owner_count}, owners[i], std::move(encoded.segments), 1));
    Buffer bytes = std::move(payload.head);
    for (const Buffer& piece : payload.body) AppendBytes(bytes, piece);
    update->payload_bytes.push_back(std::move(bytes));
  }
  for (const Buffer& bytes : update->payload_bytes) {
    XORBIT_ASSIGN_OR_RETURN(PayloadView payload, ParsePayload(update->layout, bytes));
    update->payloads.push_back(std::move(payload));
  }
  return {};
}

// Densities from none to all, by seed; every dtype, unit and way to split.
inline constexpr std::array<uint64_t, 6> kDensities = {0, 1, 10, 200, 700, 1000};
inline constexpr std::array<Split, 3> kSplits = {Split::kWhole, Split::kRange, Split::kColumn};
inline Result<RandomUpdate> MakeRandomUpdate(const Backend& backend, uint64_t seed, uint64_t max_elements,
                                             CodecId codec = CodecId::kSparse, const EncodeOptions& options = {}) {
  Random random(seed);
  RandomUpdate update;
  update.layout = RandomLayout(random, 10, max_elements);
  update.before = std::make_unique<RandomTensors>(random, update.layout);
  update.after = std::make_unique<RandomTensors>(random, update.layout);
  update.after->CopyFrom(*update.before);
  update.after->Mutate(random, update.layout, kDensities[seed % kDensities.size()]);
  const auto owner_count = static_cast<uint32_t>(Between(random, 1, 4));
  XORBIT_RETURN_IF_ERROR(EncodeRandomUpdate(backend, owner_count, kSplits[seed % kSplits.size()], &update, codec, options));
  return update;
}

// What the host's reader says of a payload: what is wrong with its head, or else with the first tile that does not decode.
struct HostVerdict {
  Status head;
  Status tile;
};

inline HostVerdict Judge(const Backend& backend, const PayloadView& payload) {
  HostVerdict verdict;
  for (const PayloadSegment& segment : payload.segments) {
    const auto decoder = backend.Open(payload, segment);
    if (!decoder.ok()) return {decoder.status(), {}};
    DecodedRecord record;
    for (uint64_t i = 0; i < (*decoder)->record_count() && verdict.tile.ok(); ++i)
      verdict.tile = (*decoder)->Decode(i, &record);
  }
  return verdict;
}

// A payload with up to three bits of what follows its header flipped, and where.
inline std::pair<Buffer, std::string> Damage(const Buffer& payload, Random& random) {
  std::pair<Buffer, std::string> damaged(payload, "");
  if (payload.size() == sizeof(PayloadHeader)) return damaged;
  for (uint64_t i = Between(random, 1, 3); i > 0; --i) {
    const uint64_t at = Between(random, sizeof(PayloadHeader), payload.size() - 1);
    damaged.first[at] ^= static_cast<uint8_t>(1U << Between(random, 0, 7));
    damaged.second += " " + std::to_string(at);
  }
  return damaged;
}

}  // namespace xorbit::cuda::testing
