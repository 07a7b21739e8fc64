// All ranks' receipts of one publication: do they belong together, and what delta do they make? Pure; what needs the store is
// in stream_seal.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "store/receipt.h"
#include "store/stream_info.h"
#include "tensor/layout.h"

namespace xorbit {

// kRefused unless receipt i is one of receipts.size() ranks', and all use one codec.
Status CheckTogether(std::span<const Receipt> receipts);

// What is wrong with a part that several ranks hold.
struct WitnessFault {
  enum class Kind {
    kDiffers,      // `rank` holds other values than the owner
    kOwnerSilent,  // `rank` bears witness of what the owner does not
    kNobodyElse,   // the owner bears witness, and nobody else does; `rank` is the owner
  };
  Kind kind = Kind::kDiffers;
  uint32_t owner_index = 0;
  uint32_t rank = 0;
  Sha256Digest part_sha256{};
};

// The first, by rank; nothing if all copies of every part are equal. One rank may hold several.
std::optional<WitnessFault> FindWitnessFault(std::span<const Receipt> receipts);

// One line. `part` is what the part is of: "tensor 'x'".
Status Refusal(const WitnessFault& fault, const std::string& part);

// The manifest that the receipts make, but for its digests.
Manifest ManifestOf(const StreamInfo& info, const Layout& layout, const PublicationPlace& place,
                    std::span<const Receipt> receipts);

}  // namespace xorbit
