// Attachments: what is accepted must come out the same when it is written and read again, and name segments of its list alone.
#include <cstdlib>

#include "base/bytes.h"
#include "receive/attachment.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto attachment = xorbit::ParseAttachmentJson(xorbit::AsText({data, size}));
  if (!attachment.ok()) return 0;
  const auto again = xorbit::ParseAttachmentJson(WriteAttachmentJson(*attachment));
  if (!again.ok() || WriteAttachmentJson(*again) != WriteAttachmentJson(*attachment)) std::abort();
  for (const auto& places : {attachment->regions, attachment->kept}) {
    for (const xorbit::ExportedPlace& place : places) {
      if (place.segment_index >= attachment->segments.size()) std::abort();
    }
  }
  return 0;
}
