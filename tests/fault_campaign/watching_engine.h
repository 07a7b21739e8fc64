// An engine that compares every byte of its memory, and of the gaps between its regions, with what the version that it is made
// to serve must be; and the version with what the other rank of the pair serves.
#pragma once

#include "fault_campaign/actors.h"
#include "receive/engine.h"
#include "store/stream.h"

namespace xorbit::fault_campaign {

class WatchingEngine final : public Engine {
 public:
  // Stands still, and holds version 0.
  WatchingEngine(const Place& place, Stream& stream)
      : place_(place),
        stream_(stream),
        live_(Random(place.seed), place),
        expected_(Random(place.seed), place),
        memory_(live_.memory.memory()) {
    place_.seat().serves = 0;
    live_.memory.Fill(place_.model.base());
  }

  const LiveMemory& memory() const { return memory_; }

  Status Pause(Deadline /*deadline*/) override {
    place_.seat().serves = 0;
    return {};
  }
  Status Refresh(const std::vector<std::string>& /*callbacks*/, Deadline /*deadline*/) override { return {}; }
  Status Resume(uint64_t version, Deadline /*deadline*/) override {
    if (!Holds(version)) ++place_.board.wrong_bytes_count;
    ++place_.board.serve_count;
    place_.seat().serves = version + 1;
    if (place_.actor == kLone) return {};
    const uint64_t other = place_.board.seats[place_.actor == kPair0 ? kPair1 : kPair0].serves;
    if (other != 0 && other != version + 1) ++place_.board.disagreement_count;
    return {};
  }

 private:
  // Two of one seed are equal, whatever they are filled with.
  struct Memory {
    Memory(Random random, const Place& place) : memory(random, place.model.layout(), place.model.map(place.actor)) {}
    RandomLiveMemory memory;
  };

  bool Holds(uint64_t version) {
    const auto record = stream_.Record(version);
    if (!record.ok() || !*record || !(*record)->committed()) return false;
    NoteDecision(place_.board, **record);
    expected_.memory.Fill(version == 0 ? place_.model.base() : place_.model.state(**record));
    return live_.memory.Snapshot() == expected_.memory.Snapshot();
  }

  const Place& place_;
  Stream& stream_;
  Memory live_;
  Memory expected_;
  LiveMemory memory_;
};

}  // namespace xorbit::fault_campaign
