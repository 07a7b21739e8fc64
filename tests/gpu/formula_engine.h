// An engine for checks of a server: its weights follow a formula, on a device, and are exported by CUDA IPC. It steps through a
// gate, so that it knows how long it had to stand.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "backend/cuda/testing/big_model.h"
#include "backend/cuda/testing/formula_memory.h"
#include "base/file.h"
#include "base/shared_memory.h"
#include "receive/engine_gate.h"

namespace xorbit {

// Steps of 200 microseconds, behind the gate.
class SteppingThread {
 public:
  explicit SteppingThread(EngineGate gate) : gate_(gate), thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  // The longest time since the last call in which it could not begin a step.
  double TakeLongestStallMs() { return static_cast<double>(longest_ns_.exchange(0)) * 1e-6; }

 private:
  void Run(const std::stop_token& stop);

  EngineGate gate_;
  std::atomic<int64_t> longest_ns_{0};
  std::jthread thread_;  // tidy-allow: an engine of its own
};

class FormulaEngine {
 public:
  // Writes `folder`/engine.json, by which others attach. `model` outlives the engine.
  static Result<std::unique_ptr<FormulaEngine>> Export(const cuda::testing::BigModel& model, const fs::path& folder);
  FormulaEngine() = default;
  FormulaEngine(const FormulaEngine&) = delete;
  FormulaEngine& operator=(const FormulaEngine&) = delete;
  ~FormulaEngine();

  FormulaMemory& memory() { return *memory_; }
  EngineGate gate() const { return *gate_; }

 private:
  std::unique_ptr<FormulaMemory> memory_;
  std::string control_name_;
  SharedMemory control_;
  std::optional<EngineGate> gate_;
};

}  // namespace xorbit
