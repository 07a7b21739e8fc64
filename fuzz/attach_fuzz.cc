// Attachments as a server takes them, over shared memory that is really there: what is accepted lies in it, each in a place of
// its own, and can be read to its last byte.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/temporary_folder.h"
#include "receive/attached_memory.h"
#include "receive/exported_memory.h"

namespace {

xorbit::TensorSpec Tensor(const char* name, xorbit::Dtype dtype, std::vector<uint64_t> shape) {
  xorbit::TensorSpec tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

// An engine that lives as long as the search.
struct Engine {
  xorbit::TemporaryFolder folder;
  std::string name = "/xorbit-fuzz-" + std::to_string(::getpid());
  xorbit::Layout layout =
      xorbit::Layout::Make({Tensor("a", xorbit::Dtype::kBF16, {8, 8}), Tensor("b", xorbit::Dtype::kU8, {100})}, {"model"})
          .value();
  std::unique_ptr<xorbit::ExportedMemory> memory =
      xorbit::ExportedMemory::Make(layout, CanonicalMap(layout), {name, folder / "engine.json", 4096}).value();

  Engine() {
    if (!memory->Publish(layout).ok()) std::abort();
  }
};

void Check(const xorbit::AttachedMemory& memory) {
  std::vector<xorbit::MutableBytes> all(memory.live().regions.begin(), memory.live().regions.end());
  all.push_back(memory.undo_memory());
  uint64_t sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const uint8_t byte : all[i]) sum += byte;
    for (size_t j = 0; j < i; ++j) {
      if (all[i].data() < all[j].data() + all[j].size() && all[j].data() < all[i].data() + all[i].size()) std::abort();
    }
  }
  volatile uint64_t read = sum;
  (void)read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Engine engine;
  auto attachment = xorbit::ParseAttachmentJson(xorbit::AsText({data, size}));
  if (!attachment.ok()) return 0;
  // No other memory of this machine is opened, whatever the input names.
  for (xorbit::ExportedSegment& segment : attachment->segments) {
    if (segment.kind == xorbit::ExportedSegment::Kind::kSharedMemory) segment.name = engine.name;
  }
  attachment->live_map = "engine.json.map";
  const std::string text = WriteAttachmentJson(*attachment);
  const xorbit::fs::path path = engine.folder / "fuzzed.json";
  (void)xorbit::PosixFileOps().Unlink(path);
  if (!WriteWholeFile(xorbit::PosixFileOps(), path, xorbit::AsBytes(text)).ok()) std::abort();
  const auto memory = xorbit::AttachedMemory::Attach(path, engine.layout);
  if (memory.ok()) Check(**memory);
  return 0;
}
