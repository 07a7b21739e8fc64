// The small files of a store, by the first byte. What is accepted must come out the same when it is written and read again.
#include <cstdlib>

#include "store/anchor.h"
#include "store/head_hint.h"
#include "store/receipt.h"
#include "store/stream_info.h"
#include "store/tombstones.h"
#include "store/version_record.h"

namespace {

template <auto kParse, auto kWrite>
void Check(std::string_view text) {
  const auto value = kParse(text);
  if (!value.ok()) return;
  const std::string written = kWrite(*value);
  const auto again = kParse(written);
  if (!again.ok() || kWrite(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = xorbit::AsText({data + 1, size - 1});
  switch (data[0]) {
    case 's':
      Check<xorbit::ParseStreamInfo, xorbit::WriteStreamInfo>(text);
      break;
    case 'v':
      Check<xorbit::ParseVersionRecord, xorbit::WriteVersionRecord>(text);
      break;
    case 'r':
      Check<xorbit::ParseReceipt, xorbit::WriteReceipt>(text);
      break;
    case 'h':
      Check<xorbit::ParseHeadHint, xorbit::WriteHeadHint>(text);
      break;
    case 't':
      Check<xorbit::ParseTombstones, xorbit::WriteTombstones>(text);
      break;
    case 'a':
      Check<xorbit::ParseAnchor, xorbit::WriteAnchor>(text);
      break;
    default:
      (void)xorbit::ParsePlacedKey("s", xorbit::AsText({data, size}));
  }
  return 0;
}
