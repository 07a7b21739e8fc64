// Compares every kernel of the best CPU level with the portable one, whose unit tests run natively. A program without
// libraries, so that it can be cross-built and run under an emulator (neon_check.sh). Exit code 0: all equal.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/bytes.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

using Random = std::mt19937_64;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

Buffer RandomBytes(Random& random, size_t count) {
  Buffer bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

struct Changes {
  uint32_t count;
  std::vector<uint16_t> positions;
  Buffer xors;
  Buffer olds;

  Changes(DiffKernel diff, const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t unit_bytes, uint32_t element_count)
      : positions(element_count + 64), xors(size_t{element_count + 64} * unit_bytes), olds(xors.size()) {
    count = diff(old_bytes, new_bytes, element_count, 65536 - element_count, kDiffPrefetchBytes,
                 {positions.data(), xors.data(), olds.data()});
    positions.resize(count);
    xors.resize(size_t{count} * unit_bytes);
    olds.resize(xors.size());
  }
  friend bool operator==(const Changes&, const Changes&) = default;
};

void CheckDiff(const CpuKernels& kernels, Random& random) {
  for (uint32_t log2 = 0; log2 < 4; ++log2) {
    const uint32_t unit_bytes = 1U << log2;
    const auto element_count = static_cast<uint32_t>(random() % 3000);
    const uint64_t per_mille = random() % 2 == 0 ? random() % 20 : random() % 1001;
    const Buffer old_bytes = RandomBytes(random, size_t{element_count} * unit_bytes + 3);
    Buffer new_bytes = old_bytes;
    for (uint32_t i = 0; i < element_count; ++i) {
      if (random() % 1000 >= per_mille) continue;
      new_bytes[3 + size_t{i} * unit_bytes + random() % unit_bytes] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    const Changes fast(kernels.diff[log2], old_bytes.data() + 3, new_bytes.data() + 3, unit_bytes, element_count);
    const Changes plain(kPortableKernels.diff[log2], old_bytes.data() + 3, new_bytes.data() + 3, unit_bytes, element_count);
    if (fast != plain) Fail("diffs of " + std::to_string(unit_bytes) + "-byte units differ");
  }
}

void CheckDigestAndSum(const CpuKernels& kernels, Random& random) {
  const uint64_t block_count = random() % 70;
  const Buffer bytes = random() % 4 == 0 ? Buffer(block_count * 64 + 5, 0xff) : RandomBytes(random, block_count * 64 + 5);
  const uint64_t key = random();
  const uint64_t first_block = random();
  DigestSums fast;
  DigestSums plain;
  kernels.digest_blocks(key, first_block, bytes.data() + 5, block_count, &fast);
  kPortableKernels.digest_blocks(key, first_block, bytes.data() + 5, block_count, &plain);
  if (std::memcmp(fast.sums, plain.sums, sizeof(fast.sums)) != 0)
    Fail("digests of " + std::to_string(block_count) + " blocks differ");
  if (kernels.sum(bytes.data(), bytes.size()) != kPortableKernels.sum(bytes.data(), bytes.size())) Fail("sums differ");
}

int Main() {
  const CpuLevel level = BestCpuLevel();
  if (level == CpuLevel::kPortable) std::printf("this machine has the portable level only: nothing to compare\n");
  const uint64_t seed = TestSeed();
  std::printf("level %s, seed %llu\n", std::string(NameOf(level)).c_str(), static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    CheckDiff(KernelsOf(level), random);
    CheckDigestAndSum(KernelsOf(level), random);
  }
  std::printf("all kernels agree with the portable ones\n");
  return 0;
}

}  // namespace
}  // namespace xorbit

int main() { return xorbit::Main(); }
