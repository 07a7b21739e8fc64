// The gate between an engine and whoever updates its weights from another process: one cache line of memory that both have
// mapped (docs/formats/attachment.md). An engine needs this header alone.
//
//   engine                                         whoever updates
//   while (!(version = gate.TryEnter())) sleep     gate.Close(deadline)   closes, waits until all have left
//   one step of the model, with that version       weights change
//   gate.Leave()                                   gate.Open(version)
//
// Whether it is closed and how many are inside is one word, so nobody slips in between. The word outlives both processes: if
// whoever updates is killed, the gate stays closed until the next one has made the weights a version again.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

namespace xorbit {

inline constexpr std::array<uint8_t, 8> kGateMagic = {'x', 'o', 'b', 'g', 'a', 't', 'e', 0};
inline constexpr uint64_t kGateVersion = 1;

struct alignas(64) GateWords {
  std::array<uint8_t, 8> magic{};
  std::atomic<uint64_t> format_version = kGateVersion;
  std::atomic<uint64_t> epoch = 0;          // of the live map: the engine counts it up when it moves its weights
  std::atomic<uint64_t> state = kIsClosed;  // kIsClosed, plus how many are inside
  std::atomic<uint64_t> turn_count = 1;     // one more whenever it closes or opens, so odd while it is closed
  std::atomic<uint64_t> version = 0;        // of the weights, while it is open
  std::atomic<uint64_t> clean = 0;          // the version plus 1, if nothing that the engine has cached is of another; or 0
  std::array<uint8_t, 8> reserved{};

  static constexpr uint64_t kIsClosed = uint64_t{1} << 63;
};
static_assert(sizeof(GateWords) == 64 && std::atomic<uint64_t>::is_always_lock_free);

// A view of the words. Enter and Leave from any thread of the engine; Close and Open from one thread of one process at a time.
class EngineGate {
 public:
  static constexpr std::chrono::microseconds kPoll{20};

  // The engine's: a gate in this memory, which is 64-byte aligned and as long as GateWords. Closed, until somebody has proven
  // what the weights are.
  static EngineGate Make(std::span<uint8_t> memory, uint64_t epoch) {
    auto* const words = new (memory.data()) GateWords();  // tidy-allow: placement into shared memory
    words->epoch = epoch;
    words->magic = kGateMagic;
    return EngineGate(words);
  }
  // The gate that is there, as whoever updates it finds it. Nothing if there is none, or one of another format.
  static std::optional<EngineGate> Find(std::span<uint8_t> memory) {
    if (memory.size() < sizeof(GateWords)) return std::nullopt;
    auto* const words = reinterpret_cast<GateWords*>(memory.data());
    if (words->magic != kGateMagic || words->format_version != kGateVersion) return std::nullopt;
    return EngineGate(words);
  }

  // --- the engine ---
  // The version of the weights, which stay as they are until as many calls of Leave. Nothing while the gate is closed.
  std::optional<uint64_t> TryEnter() const {
    uint64_t state = words_->state.load(std::memory_order_relaxed);
    do {
      if ((state & GateWords::kIsClosed) != 0) return std::nullopt;
    } while (!words_->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return words_->version.load(std::memory_order_relaxed);
  }
  void Leave() const { words_->state.fetch_sub(1, std::memory_order_release); }
  // The weights lie elsewhere now, and only a new attachment says where. Inside the gate, or while nobody may enter it.
  void Move(uint64_t epoch) const { words_->epoch.store(epoch, std::memory_order_release); }

  // --- whoever updates ---
  // True once nobody is inside, nor will be before Open. False at the deadline: the gate is as it was before.
  bool Close(std::chrono::steady_clock::time_point deadline) const {
    const uint64_t before = words_->state.fetch_or(GateWords::kIsClosed, std::memory_order_acquire);
    if ((before & GateWords::kIsClosed) == 0) words_->turn_count.fetch_add(1, std::memory_order_release);
    while (words_->state.load(std::memory_order_acquire) != GateWords::kIsClosed) {
      if (std::chrono::steady_clock::now() >= deadline) {
        if ((before & GateWords::kIsClosed) == 0) LetIn();
        return false;
      }
      std::this_thread::sleep_for(kPoll);
    }
    return true;
  }
  void Open(uint64_t version) const {
    if (words_->version.exchange(version, std::memory_order_relaxed) != version) words_->clean.store(0);
    LetIn();
  }
  // The engine's caches were flushed before the last Open of this version.
  void NoteClean(uint64_t version) const { words_->clean.store(version + 1); }

  bool is_closed() const { return (words_->state.load() & GateWords::kIsClosed) != 0; }
  uint64_t inside_count() const { return words_->state.load() & ~GateWords::kIsClosed; }
  uint64_t turn_count() const { return words_->turn_count.load(); }
  uint64_t version() const { return words_->version.load(); }  // if it is open
  bool is_clean() const { return words_->clean.load() == version() + 1; }
  uint64_t epoch() const { return words_->epoch.load(std::memory_order_acquire); }

 private:
  explicit EngineGate(GateWords* words) : words_(words) {}
  void LetIn() const {
    // Even, also if whoever closed it was killed between its two stores.
    words_->turn_count.store((words_->turn_count.load() + 1) / 2 * 2, std::memory_order_relaxed);
    words_->state.fetch_and(~GateWords::kIsClosed, std::memory_order_release);
  }

  GateWords* words_;
};

}  // namespace xorbit
