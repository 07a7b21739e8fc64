// Whole messages over a stream socket of the loopback device.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"

namespace xorbit {

// A socket that listens on the loopback device, on a port that the system chooses.
struct LoopbackListener {
  UniqueFd fd;
  uint16_t port = 0;
};
Result<LoopbackListener> ListenOnLoopback(int most_waiting);
Result<UniqueFd> AcceptFrom(const UniqueFd& listener);
Result<UniqueFd> ConnectToLoopback(uint16_t port);

// All of the bytes, or an error. A peer that has gone is an error and no signal.
Status SendAll(const UniqueFd& socket, ConstBytes bytes);
// Fills all of `bytes`. False, and nothing is filled, if the peer has ended before the first of them; an error if it ends
// later.
Result<bool> ReceiveAll(const UniqueFd& socket, MutableBytes bytes);
// Ends both directions: whoever waits on the socket, here or there, goes on.
void EndConnection(const UniqueFd& socket);

}  // namespace xorbit
