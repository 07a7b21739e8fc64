// receipt-NNNNN.json: one rank's word that its payload of a publication is in the store, and what it started from.
// docs/formats/store.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "payload/manifest.h"
#include "store/store_keys.h"
#include "tensor/segment.h"

namespace xorbit {

inline constexpr uint64_t kMaxReceiptBytes = uint64_t{64} << 20;

// What a rank says about a part that several ranks hold. The owner says it too; all must agree.
struct WitnessDigest {
  uint32_t owner_index = 0;    // who publishes the part
  Sha256Digest part_sha256{};  // PartsDigest of the part alone
  StateDigest after;           // D over the part, after the change
  friend bool operator==(const WitnessDigest&, const WitnessDigest&) = default;
};

struct Receipt {
  PublicationPlace place;
  uint32_t owner_index = 0;
  uint32_t owner_count = 0;
  CodecId codec = CodecId::kSparse;
  bool has_digests = true;
  ManifestOwner owner;          // its payload
  StateDigest base_part;        // D over the elements that it owns, before the change
  Sha256Digest parts_sha256{};  // PartsDigest of its segments
  std::vector<WitnessDigest> witnesses;
};

// SHA-256 over, for each segment: u32 unit bytes, u32 group, u64 length of its encoded parts, these (docs/formats/payload.md,
// "Parts"). Says which elements an owner holds. `segments` ascend by group, then unit, as in a payload.
Sha256Digest PartsDigest(const Layout& layout, std::span<const SegmentMap* const> segments);

std::string WriteReceipt(const Receipt& receipt);  // deterministic
Result<Receipt> ParseReceipt(std::string_view json);

}  // namespace xorbit
