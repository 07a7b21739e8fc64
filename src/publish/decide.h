// From every rank's receipts to a decided version.
#pragma once

#include <chrono>

#include "store/stream.h"

namespace xorbit {

struct DecideOptions {
  std::chrono::milliseconds deadline{60'000};  // for the other ranks' receipts
  std::chrono::milliseconds poll_interval{2};  // how often the store is asked meanwhile
  bool abort_at_deadline = false;              // then decides that the version is aborted, instead of giving up
};

// Waits until all receipts of the publication are there, seals it, and decides its version. Returns the decision, which may be
// another publication's or an abort, if somebody was faster. Any rank may call it, several may. kRefused if the receipts do not
// belong together, or, naming the missing ranks, at the deadline: the version is then still undecided, and the call can be made
// again.
Result<VersionRecord> SealAndDecide(Stream& stream, const PublicationPlace& place, const DecideOptions& options);

// The first half alone, for folds, which decide nothing. Errors are the same; `abort_at_deadline` means nothing here.
Result<Manifest> SealWhenComplete(Stream& stream, const PublicationPlace& place, const DecideOptions& options);

}  // namespace xorbit
