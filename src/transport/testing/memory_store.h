// A store in memory for tests: fast, with a clock that the test sets, and with calls that fail before or after they took
// effect.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "transport/object_store.h"

namespace xorbit {

class MemoryStore final : public ObjectStore {
 public:
  enum class Fault {
    kNone,
    kFails,      // kIo, nothing happened
    kLostReply,  // kIo, but it happened
  };
  // Asked before each PutNew, Replace and Remove, with its name and key. Must be thread-safe. Set before threads start.
  std::function<Fault(std::string_view call, std::string_view key)> fault;
  bool can_list = true;

  void SetNowNs(int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ = now_ns;
  }
  uint64_t object_count() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }
  // What no client can do: flip, cut or replace an object's bytes.
  void Corrupt(const std::string& key, const std::function<void(Buffer*)>& change) {
    const std::lock_guard lock(mutex_);
    change(&objects_.at(key).bytes);
  }

  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override {
    const std::lock_guard lock(mutex_);
    XORBIT_ASSIGN_OR_RETURN(const Object* object, Find(key));
    if (object->bytes.size() > limit_bytes) return CorruptError("'" + std::string(key) + "' is larger than allowed");
    return object->bytes;
  }
  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    const std::lock_guard lock(mutex_);
    XORBIT_ASSIGN_OR_RETURN(const Object* object, Find(key));
    const uint64_t size = object->bytes.size();
    if (offset_bytes > size || bytes.size() > size - offset_bytes)
      return CorruptError("'" + std::string(key) + "' ends before");
    std::copy_n(object->bytes.begin() + static_cast<ptrdiff_t>(offset_bytes), bytes.size(), bytes.begin());
    return {};
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    XORBIT_ASSIGN_OR_RETURN(const Object* object, Find(key));
    return ObjectInfo{std::string(key), object->bytes.size(), object->modified_ns};
  }
  using ObjectStore::PutNew;
  Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) override {
    Buffer bytes;
    for (const ConstBytes piece : pieces) AppendBytes(bytes, piece);
    return Change("PutNew", key, [&]() -> Status {
      const auto [at, is_new] = objects_.insert({std::string(key), Object{bytes, now_ns_}});
      if (!is_new && at->second.bytes != bytes)
        return ExistsError("'" + std::string(key) + "' exists already, with other content");
      return {};
    });
  }
  Status Replace(std::string_view key, ConstBytes bytes) override {
    return Change("Replace", key, [&]() -> Status {
      objects_[std::string(key)] = {Buffer(bytes.begin(), bytes.end()), now_ns_};
      return {};
    });
  }
  Status Remove(std::string_view key) override {
    return Change("Remove", key, [&]() -> Status {
      objects_.erase(std::string(key));
      return {};
    });
  }
  Status Sync(std::string_view key) override { return CheckObjectKey(key); }
  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override {
    if (!can_list) return UnsupportedError("this store cannot list");
    const std::lock_guard lock(mutex_);
    std::vector<ObjectInfo> found;
    for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix); ++at) {
      found.push_back({at->first, at->second.bytes.size(), at->second.modified_ns});
    }
    return found;
  }
  Result<int64_t> NowNs() override {
    const std::lock_guard lock(mutex_);
    return now_ns_;
  }

 private:
  struct Object {
    Buffer bytes;
    int64_t modified_ns = 0;
  };

  Result<const Object*> Find(std::string_view key) const {
    XORBIT_RETURN_IF_ERROR(CheckObjectKey(key));
    const auto at = objects_.find(key);
    if (at == objects_.end()) return NotFoundError("'" + std::string(key) + "' is not there");
    return &at->second;
  }
  Status Change(std::string_view call, std::string_view key, const std::function<Status()>& change) {
    XORBIT_RETURN_IF_ERROR(CheckObjectKey(key));
    const Fault injected = fault ? fault(call, key) : Fault::kNone;
    if (injected == Fault::kFails) return IoError("injected failure of " + std::string(call));
    const std::lock_guard lock(mutex_);
    const Status done = change();
    return injected == Fault::kLostReply ? IoError("injected loss of a reply") : done;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_;
  int64_t now_ns_ = 0;
};

}  // namespace xorbit
