// Memory that the processes of a test share and that outlives each of them.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/bytes.h"

namespace xorbit {

// Zero at first; fork shares it.
class SharedBytes {
 public:
  explicit SharedBytes(uint64_t byte_count)
      : bytes_(static_cast<uint8_t*>(::mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
               byte_count) {
    EXPECT_NE(bytes_.data(), MAP_FAILED);
  }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  ~SharedBytes() { ::munmap(bytes_.data(), bytes_.size()); }
  MutableBytes bytes() const { return bytes_; }

 private:
  MutableBytes bytes_;
};

}  // namespace xorbit
