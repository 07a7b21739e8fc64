// A store that an operator puts back to an older copy of itself.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/store_keys.h"
#include "transport/object_store.h"

namespace xorbit {

// To when `version` was the newest one of this stream, which knows of no more.
inline void PutBack(ObjectStore& store, const std::string& stream_id, uint64_t version) {
  const std::vector<ObjectInfo> objects = store.List(stream_id + "/v").value();
  for (const ObjectInfo& object : objects) {
    if (object.key < VersionFolder(stream_id, version + 1)) continue;
    ASSERT_TRUE(store.Remove(object.key).ok());
  }
  ASSERT_TRUE(store.Remove(HeadKey(stream_id)).ok());
}

}  // namespace xorbit
