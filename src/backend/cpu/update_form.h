// In which form an update waits for the pause.
//
// A log in live coordinates is the faster form in the pause, whatever the number of pieces: neither decoding nor search is left
// in it. It takes 6 bytes a BF16 change, where the coded payload takes less than one. So an update waits as a log as far as the
// budget allows. One that is too large changes many elements in every piece (32 MiB hold 28 in each of 200,000), so that what
// pieces cost is the scattered memory, for a log as well as without one (docs/design/receiving.md, Figures).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/cpu/touch_log.h"
#include "backend/prepared_update.h"
#include "payload/payload_reader.h"
#include "tensor/layout.h"
#include "tensor/live_map.h"

namespace xorbit {

// The share of a layout's bits that a rank holds, every copy and cast by itself: above 1 if there are many.
double HeldShare(const Layout& layout, const LiveMap& map);

// What a log without old values takes, if the share of the changes is that of the bits.
uint64_t ExpectedLogBytes(std::span<const PayloadView> payloads, double held_share);

// The log as which an update waits; nothing: it waits as its payloads, which are decoded and searched for in the pause. The
// budget is kept even if more changes than expected are held: a log of kXors is then given up.
std::optional<TouchLogKind> ChooseLog(const PrepareOptions& options, uint64_t expected_log_bytes);

}  // namespace xorbit
