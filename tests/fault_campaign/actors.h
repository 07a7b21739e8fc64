// The processes of a world, as functions that live until they are killed: each goes on after whatever goes wrong, as a trainer,
// a sampler and a collector would.
#pragma once

#include <functional>
#include <memory>

#include "base/file.h"
#include "fault_campaign/board.h"
#include "fault_campaign/faulty_store.h"
#include "fault_campaign/model.h"

namespace xorbit::fault_campaign {

// Where an actor is.
struct Place {
  const Model& model;
  Board& board;
  uint32_t actor;
  fs::path store;   // of the stream
  fs::path cohort;  // of the pair
  uint64_t seed;    // of this life
  // Instead of files behind a full disk: what records them, for a power cut. The life ends when goes_on says so.
  FileOps* recorder = nullptr;
  std::function<bool()> goes_on = [] { return true; };

  Seat& seat() const { return board.seats[actor]; }
};

// How many newest versions collectors keep the deltas of.
inline constexpr uint64_t kKeptVersions = 12;

// Exit codes of lives that end by themselves, which samplers' do: the engine has to load its checkpoint again.
inline constexpr int kNeedsReload = 20;

// Lives until killed, or until goes_on says no.
int Live(const Place& place);

// Notes a decision that the store has given as final; counts one that differs from what was seen before.
void NoteDecision(Board& board, const VersionRecord& record);

}  // namespace xorbit::fault_campaign
