// Weights in one allocation, the gate in a page of shared memory beside it.
#include "formula_engine.h"

#include <unistd.h>

#include "backend/cuda/device_memory.h"
#include "base/checked_math.h"
#include "base/stopwatch.h"
#include "receive/attachment.h"
#include "tensor/live_map_json.h"

namespace xorbit {

void SteppingThread::Run(const std::stop_token& stop) {
  Stopwatch since_step;
  bool has_begun = false;
  while (!stop.stop_requested()) {
    if (!gate_.TryEnter()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      continue;
    }
    const auto stall_ns = static_cast<int64_t>(since_step.seconds() * 1e9);
    if (has_begun && stall_ns > longest_ns_) longest_ns_ = stall_ns;
    has_begun = true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    gate_.Leave();
    since_step = Stopwatch();
  }
}

Result<std::unique_ptr<FormulaEngine>> FormulaEngine::Export(const cuda::testing::BigModel& model, const fs::path& folder) {
  constexpr uint64_t kControlBytes = 4096;
  constexpr uint64_t kPageBytes = uint64_t{2} << 20;
  auto engine = std::make_unique<FormulaEngine>();
  std::vector<FormulaPiece> pieces;
  for (uint32_t i = 0; i < model.places.size(); ++i) {
    pieces.push_back({model.places[i], model.layout.tensors()[i].byte_count, model.first_bytes[i]});
  }
  const uint64_t byte_count = DivideRoundUp(model.byte_count, kPageBytes) * kPageBytes;
  XORBIT_ASSIGN_OR_RETURN(engine->memory_, MakeFormulaMemory(0, byte_count, model.formula, pieces));
  XORBIT_ASSIGN_OR_RETURN(const DeviceMemoryHandle handle, ExportDeviceMemory(engine->memory_->bytes()));
  engine->control_name_ = "/xorbit-serve-check-" + std::to_string(::getpid());
  XORBIT_ASSIGN_OR_RETURN(engine->control_, SharedMemory::Create(engine->control_name_, kControlBytes));
  engine->gate_ = EngineGate::Make(engine->control_.bytes().first(sizeof(GateWords)), model.map.epoch());
  if (!engine->control_.TryLock()) return RefusedError("cannot lock " + engine->control_name_);
  Attachment attachment;
  attachment.live_map = "engine.map";
  attachment.segments = {{ExportedSegment::Kind::kSharedMemory, engine->control_name_, "", kControlBytes},
                         {ExportedSegment::Kind::kCudaIpc, handle.handle, handle.device, byte_count}};
  attachment.regions = {{model.map.regions()[0].name, 1, 0}};
  const std::string map = WriteLiveMapJson(model.layout, model.map);
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(PosixFileOps(), folder / attachment.live_map, AsBytes(map)));
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(PosixFileOps(), folder / "engine.json", AsBytes(WriteAttachmentJson(attachment))));
  return engine;
}

FormulaEngine::~FormulaEngine() {
  if (!control_name_.empty()) (void)SharedMemory::Remove(control_name_);
}

}  // namespace xorbit
