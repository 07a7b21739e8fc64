#include "store/checked_text.h"

#include <utility>

#include "base/checksum_field.h"

namespace xorbit {

Status PutText(ObjectStore& store, std::string_view key, std::string text) {
  return store.PutNew(key, AsBytes(WithChecksum(std::move(text))));
}

Result<std::string> GetText(ObjectStore& store, std::string_view key, uint64_t limit_bytes) {
  XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, store.Get(key, limit_bytes));
  XORBIT_RETURN_IF_ERROR(CheckChecksum(AsText(bytes)).WithContext(key));
  return std::string(AsText(bytes));
}

}  // namespace xorbit
