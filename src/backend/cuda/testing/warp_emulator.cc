#include "backend/cuda/testing/warp_emulator.h"

#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "backend/cuda/warp.h"

namespace xorbit::cuda {
namespace {

enum class Collective { kNone, kBallot, kShuffleUp, kShuffleFrom, kShuffleXor, kSync };

struct LaneState {
  ucontext_t context{};
  std::unique_ptr<uint8_t[]> stack;
  bool ended = false;
  Collective collective = Collective::kNone;
  uint64_t value = 0;
  uint32_t argument = 0;
  uint64_t result = 0;
};

struct Warp {
  ucontext_t scheduler{};
  std::array<LaneState, kWarpLanes> lanes;
  uint32_t current = 0;
  const std::function<void()>* body = nullptr;
};

thread_local Warp* running_warp = nullptr;

[[noreturn]] void Diverged(const char* why) {
  std::fprintf(stderr, "emulated warp: %s\n", why);  // tidy-allow: a test helper that cannot go on
  std::abort();
}

void LaneMain() {
  Warp* warp = running_warp;
  (*warp->body)();
  warp->lanes[warp->current].ended = true;
}

uint64_t Meet(Collective collective, uint64_t value, uint32_t argument) {
  Warp* warp = running_warp;
  LaneState& lane = warp->lanes[warp->current];
  lane.collective = collective;
  lane.value = value;
  lane.argument = argument;
  swapcontext(&lane.context, &warp->scheduler);
  return lane.result;
}

void Resolve(Warp* warp) {
  uint64_t ballot = 0;
  for (uint32_t i = 0; i < kWarpLanes; ++i) ballot |= uint64_t{warp->lanes[i].value != 0} << i;
  for (uint32_t i = 0; i < kWarpLanes; ++i) {
    LaneState& lane = warp->lanes[i];
    uint32_t from = i;
    if (lane.collective == Collective::kShuffleUp && lane.argument <= i) from = i - lane.argument;
    if (lane.collective == Collective::kShuffleFrom) from = lane.argument % kWarpLanes;
    if (lane.collective == Collective::kShuffleXor) from = i ^ lane.argument;
    lane.result = lane.collective == Collective::kBallot ? ballot : warp->lanes[from].value;
  }
}

void CheckTogether(const Warp& warp) {
  for (const LaneState& lane : warp.lanes) {
    if (lane.ended != warp.lanes[0].ended) Diverged("some lanes ended while others wait for them");
    if (!lane.ended && lane.collective != warp.lanes[0].collective) Diverged("lanes wait in different collective calls");
  }
}

}  // namespace

void RunWarp(const std::function<void()>& body) {
  constexpr size_t kStackBytes = size_t{256} << 10;
  static thread_local Warp warp;
  warp.body = &body;
  running_warp = &warp;
  for (LaneState& lane : warp.lanes) {
    if (lane.stack == nullptr) lane.stack = std::make_unique<uint8_t[]>(kStackBytes);
    lane.ended = false;
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.get();
    lane.context.uc_stack.ss_size = kStackBytes;
    lane.context.uc_link = &warp.scheduler;
    makecontext(&lane.context, &LaneMain, 0);
  }
  while (!warp.lanes[0].ended) {
    for (warp.current = 0; warp.current < kWarpLanes; ++warp.current) {
      swapcontext(&warp.scheduler, &warp.lanes[warp.current].context);
    }
    CheckTogether(warp);
    Resolve(&warp);
  }
  running_warp = nullptr;
}

uint32_t Lane() { return running_warp->current; }
uint32_t Ballot(bool vote) { return static_cast<uint32_t>(Meet(Collective::kBallot, vote ? 1 : 0, 0)); }
uint32_t ShuffleUp(uint32_t value, uint32_t distance) {
  return static_cast<uint32_t>(Meet(Collective::kShuffleUp, value, distance));
}
uint32_t ShuffleFrom(uint32_t value, uint32_t lane) {
  return static_cast<uint32_t>(Meet(Collective::kShuffleFrom, value, lane));
}
uint64_t ShuffleXor(uint64_t value, uint32_t mask) { return Meet(Collective::kShuffleXor, value, mask); }
void SyncWarp() { Meet(Collective::kSync, 0, 0); }

}  // namespace xorbit::cuda
