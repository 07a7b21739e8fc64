// safetensors headers. What is accepted must fill the file exactly, in order, and read back the same after being written anew.
#include <cstdlib>

#include "tensor/layout.h"
#include "tensor/safetensors.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xorbit;
  const auto parsed = ParseSafetensors({data, size});
  if (!parsed.ok()) {
    Require(!parsed.status().message().empty());
    for (const char c : parsed.status().message()) Require(static_cast<uint8_t>(c) >= 0x20);
    return 0;
  }
  uint64_t at = parsed->header_bytes;
  for (const SafetensorsEntry& entry : parsed->entries) {
    Require(entry.begin == at && entry.end >= at);
    Require(ByteCountOf(entry.dtype, entry.shape).value() == entry.end - entry.begin);
    at = entry.end;
  }
  Require(at == size);

  Buffer rewritten = BuildSafetensorsHeader({parsed->entries, parsed->metadata}).value();
  Require(rewritten.size() % 8 == 0);
  rewritten.insert(rewritten.end(), data + parsed->header_bytes, data + size);
  const auto again = ParseSafetensors(rewritten);
  Require(again.ok() && again->metadata == parsed->metadata && again->entries.size() == parsed->entries.size());
  for (size_t i = 0; i < again->entries.size(); ++i) {
    const SafetensorsEntry& a = parsed->entries[i];
    const SafetensorsEntry& b = again->entries[i];
    Require(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.end - a.begin == b.end - b.begin);
  }
  return 0;
}
