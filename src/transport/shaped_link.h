// A link between two stores that is as slow as we say: what a benchmark puts between a trainer's folder and a sampler's, so
// that an update crosses a wire of a known rate and delay on one machine.
//
// Objects travel over real sockets of the loopback device. A token bucket at the near end gives each block the time at which a
// wire of the rate would have carried it, plus the delay; the far end does nothing with a block before that time. If this
// machine cannot keep up with the rate, blocks come later than that, and the times in LinkedObject show it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "transport/object_store.h"

namespace xorbit {

struct LinkShape {
  double gigabits_per_second = 10;            // of all lanes together
  std::chrono::nanoseconds one_way_delay{0};  // half a round trip
  int lanes = 4;                              // connections, each carrying an object at a time
};

// How a link treats an object, by its key.
enum class LinkTurn {
  kNever,
  kAnytime,
  kAfterOthers,  // it vouches for objects that were put before it: it lands after all of these
};

// One object's way. Times are of the steady clock, in nanoseconds.
struct LinkedObject {
  std::string key;
  uint64_t byte_count = 0;
  int64_t sent_ns = 0;     // its first byte went into the wire
  int64_t arrives_ns = 0;  // the wire brings its last byte: what an ideal machine would see
  int64_t landed_ns = 0;   // it was in the far store
};

// The two ends may run in two processes that were forked off after Make.
class ShapedLink {
 public:
  // Listens on the loopback device. kUsage for a shape that makes no sense.
  static Result<ShapedLink> Make(const LinkShape& shape);

  // The near end: copies everything that appears in `from`, which must be able to list, once each, until `is_over`. Of objects
  // that vouch for others, those land first whose keys sort first. Returns once all is in the wire; the far end then ends too.
  Status Send(ObjectStore& from, const std::function<LinkTurn(std::string_view key)>& turn_of,
              const std::function<bool()>& is_over) const;
  // The far end: puts into `to` what arrives, until the near end has ended. What came over is added to `objects`, in no order.
  Status Receive(ObjectStore& to, std::vector<LinkedObject>* objects) const;

 private:
  ShapedLink(const LinkShape& shape, UniqueFd listener, uint16_t port)
      : shape_(shape), listener_(std::move(listener)), port_(port) {}

  LinkShape shape_;
  UniqueFd listener_;
  uint16_t port_;
};

}  // namespace xorbit
