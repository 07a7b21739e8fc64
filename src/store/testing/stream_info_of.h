// The description of a stream that begins with given weights, its digests by the oracle. Whoever uses it links xorbit_delta.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codec/change_digest.h"
#include "delta/oracle.h"
#include "store/stream_info.h"

namespace xorbit {

inline StreamInfo StreamInfoOf(const Layout& layout, const std::vector<ConstBytes>& served, std::string id) {
  StreamInfo info;
  info.stream_id = std::move(id);
  info.base_fingerprint = Sha256Of(AsBytes(info.stream_id));  // any
  info.base = OracleDigest(layout, served);
  info.layout_digest = layout.digest();
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (layout.tensors()[i].frozen) info.frozen += DigestOfRange(keys[i], 0, served[i]);
  }
  return info;
}

}  // namespace xorbit
