// The list of codecs: by name for command lines, by number for payload heads.
#include <algorithm>
#include <vector>

#include "codec/codec.h"
#include "codec/mask_codec.h"
#include "codec/sparse_codec.h"

namespace xorbit {

std::span<const Codec* const> AllCodecs() {
  static const std::vector<const Codec*> codecs = [] {
    std::vector<const Codec*> all = {PortableSparseCodec()};
    all.insert(all.end(), MaskCodecs().begin(), MaskCodecs().end());
    return all;
  }();
  return codecs;
}

const Codec* FindCodec(std::string_view name) {
  const std::span<const Codec* const> codecs = AllCodecs();
  const auto found = std::find_if(codecs.begin(), codecs.end(), [&](const Codec* codec) { return codec->name() == name; });
  return found == codecs.end() ? nullptr : *found;
}

const Codec* FindCodec(CodecId id) {
  const std::span<const Codec* const> codecs = AllCodecs();
  const auto found = std::find_if(codecs.begin(), codecs.end(), [&](const Codec* codec) { return codec->id() == id; });
  return found == codecs.end() ? nullptr : *found;
}

}  // namespace xorbit
