// A driver with a decompression engine, for tests on machines without one: decodes on the CPU, asserts what the real one's
// documentation demands, and fails as it is told to. No product code includes it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cuda/mask/driver_api.h"
#include "backend/cuda/testing/random_mask.h"

namespace xorbit::cuda::testing {

enum class EngineFault {
  kNone,
  kUnsupported,   // the call says that it is not supported
  kErrorIndex,    // the call fails and names a request
  kGeneralError,  // the call fails and names none
  kShortOutput,   // one request writes less than all, and says so
  kWrongBytes,    // one request writes other bytes, and says nothing
  kLateFailure,   // the call succeeds, and nothing is ever written
};
inline constexpr EngineFault kEngineFaults[] = {EngineFault::kUnsupported, EngineFault::kErrorIndex, EngineFault::kGeneralError,
                                                EngineFault::kShortOutput, EngineFault::kWrongBytes, EngineFault::kLateFailure};

class FakeEngine final : public DriverApi {
 public:
  uint32_t algorithms = kDecompressSnappy | kDecompressLz4;
  uint64_t most_bytes = uint64_t{4} << 20;
  const void* incapable = nullptr;  // memory that the engine does not reach

  // The call number `call`, counted from now, fails so; once.
  void FailAt(uint64_t call, EngineFault fault) {
    calls_ = 0;
    failing_call_ = call;
    fault_ = fault;
  }
  uint64_t decoded_count() const { return decoded_count_; }

  Result<uint32_t> Algorithms(int) const override { return algorithms; }
  Result<uint64_t> MostBytes(int) const override { return most_bytes; }
  Result<bool> IsCapable(const void* memory) const override { return memory != incapable; }
  Result<void*> MakeHostMemory(int, uint64_t*) const override { return UnsupportedError("no such memory"); }
  void FreeHostMemory(void*, uint64_t) const override {}

  Status Decompress(std::span<DecompressRequest> requests, uint64_t* failed_request, StreamHandle) const override {
    const EngineFault fault = calls_++ == failing_call_ ? std::exchange(fault_, EngineFault::kNone) : EngineFault::kNone;
    const size_t victim = requests.size() / 2;
    if (fault == EngineFault::kUnsupported) return UnsupportedError("operation not supported");
    if (fault == EngineFault::kGeneralError) return IoError("the engine fails");
    if (fault == EngineFault::kLateFailure) return {};
    for (size_t i = 0; i < requests.size(); ++i) {
      if (fault == EngineFault::kErrorIndex && i == victim) {
        *failed_request = victim;
        return IoError("the engine fails");
      }
      Decode(requests[i]);
    }
    if (fault == EngineFault::kShortOutput) --*requests[victim].actual_bytes;
    if (fault == EngineFault::kWrongBytes) static_cast<uint8_t*>(requests[victim].decoded)[0] ^= 0x40;
    return {};
  }

 private:
  void Decode(const DecompressRequest& request) const {
    EXPECT_TRUE(std::ranges::all_of(request.padding, [](uint8_t byte) { return byte == 0; }));
    EXPECT_TRUE(request.algorithm == kDecompressSnappy || request.algorithm == kDecompressLz4);
    EXPECT_LE(request.coded_bytes, most_bytes);
    EXPECT_LE(request.decoded_bytes, most_bytes);
    const InnerKind kind = request.algorithm == kDecompressSnappy ? InnerKind::kSnappy : InnerKind::kLz4;
    Buffer mask(request.decoded_bytes);
    const ConstBytes coded(static_cast<const uint8_t*>(request.coded), request.coded_bytes);
    if (!CodecOf(kind).Decode(coded, mask).ok()) return;
    std::ranges::copy(mask, static_cast<uint8_t*>(request.decoded));
    *request.actual_bytes = static_cast<uint32_t>(mask.size());
    ++decoded_count_;
  }

  mutable uint64_t calls_ = 0;
  mutable uint64_t decoded_count_ = 0;
  uint64_t failing_call_ = kNoRequest;
  mutable EngineFault fault_ = EngineFault::kNone;
};

}  // namespace xorbit::cuda::testing
