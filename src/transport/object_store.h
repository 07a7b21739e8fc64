// The one interface to wherever deltas are kept: named objects of bytes, created once. A folder today; plain HTTP and S3 fit
// the same few calls. Everything that a stream relies on is here: create-only puts that survive lost replies, and durability.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace xorbit {

struct ObjectInfo {
  std::string key;
  uint64_t byte_count = 0;
  int64_t modified_ns = 0;  // by the store's clock, since 1970
};

// kUsage unless `key` is 1 to 1024 letters, digits, '.', '_', '-' and '/', and no part between slashes is empty, begins with
// '.' or is longer than 255 bytes.
Status CheckObjectKey(std::string_view key);

// Every method may be called from any thread, and from several processes on one store. Keys that CheckObjectKey refuses are
// kUsage everywhere. An error says which key it is about.
class ObjectStore {
 public:
  ObjectStore() = default;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  virtual ~ObjectStore() = default;

  // The whole object. kNotFound; kCorrupt if it is larger than the limit.
  virtual Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) = 0;
  // Fills all of `bytes` from the object's bytes at `offset_bytes`. kNotFound; kCorrupt if the object ends before.
  virtual Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) = 0;
  virtual Result<ObjectInfo> Stat(std::string_view key) = 0;  // kNotFound
  // What was read of this object is damaged. True if that was a copy, which is gone now: who reads again reads the object
  // itself.
  virtual bool DropCopy(std::string_view /*key*/) { return false; }

  // Creates the object whole, from `pieces` end to end; durable when it returns. Success too if the key already holds exactly
  // these bytes, for the reply to an earlier try may have been lost; kExists if it holds others, which are durable then too.
  // After any other error the object may be there, whole, or not: try again.
  virtual Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) = 0;
  Status PutNew(std::string_view key, ConstBytes bytes) { return PutNew(key, std::span<const ConstBytes>(&bytes, 1)); }
  // Creates or replaces the object: readers see the old bytes or the new ones. May be lost in a power cut: for hints only.
  virtual Status Replace(std::string_view key, ConstBytes bytes) = 0;
  // Success too if it was not there.
  virtual Status Remove(std::string_view key) = 0;
  // What anybody has read under `key` survives a power cut from here on. Nothing to do where a reader never sees more than
  // that; a folder shows a new name before it is on disk.
  virtual Status Sync(std::string_view key) = 0;

  // All objects whose key begins with `prefix`, ascending by key. What others put or remove meanwhile may be in it or not.
  // kUnsupported where a store cannot.
  virtual Result<std::vector<ObjectInfo>> List(std::string_view prefix) = 0;
  // The store's clock, the one of ObjectInfo::modified_ns.
  virtual Result<int64_t> NowNs() = 0;
};

}  // namespace xorbit
