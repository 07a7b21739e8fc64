// Spans of bytes, and little-endian coding with bounds that are checked once, here.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

using ConstBytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;
using Buffer = std::vector<uint8_t>;

static_assert(std::endian::native == std::endian::little, "formats are little-endian and so are all supported hosts");

// The caller guarantees that sizeof(T) bytes are readable / writable; any alignment.
template <typename T>
T LoadLe(const uint8_t* source) {
  T value;
  std::memcpy(&value, source, sizeof(T));
  return value;
}
template <typename T>
void StoreLe(uint8_t* target, T value) {
  std::memcpy(target, &value, sizeof(T));
}

inline ConstBytes AsBytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline bool IsAllZero(ConstBytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}
inline std::string_view AsText(ConstBytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <typename T>
void AppendLe(Buffer& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  StoreLe(out.data() + at, value);
}
inline void AppendBytes(Buffer& out, ConstBytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
// LEB128: seven bits a byte, low bits first, the top bit says that more follow.
void AppendVarint(Buffer& out, uint64_t value);

// Reads untrusted bytes front to back. Every read past the end is a kCorrupt error that names `what`.
class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : bytes_(bytes) {}

  size_t remaining() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }

  template <typename T>
  Result<T> ReadLe(std::string_view what) {
    if (remaining() < sizeof(T)) return Truncated(what);
    T value = LoadLe<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }
  Result<ConstBytes> ReadBytes(uint64_t count, std::string_view what);
  // Refuses encodings longer than ten bytes, above 2^64 - 1, or with a needless last zero byte.
  Result<uint64_t> ReadVarint(std::string_view what);

 private:
  static Status Truncated(std::string_view what);

  ConstBytes bytes_;
  size_t at_ = 0;
};

}  // namespace xorbit
