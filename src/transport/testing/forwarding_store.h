// A store in front of another, for tests: asks before each call that changes something, and may fail it or end the process.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "transport/object_store.h"

namespace xorbit {

class ForwardingStore : public ObjectStore {
 public:
  explicit ForwardingStore(ObjectStore& store) : store_(store) {}

  // Called before and after each change, with its key; what it returns before the change is the call's result if it is an
  // error, as is what it returns afterwards: a reply that was lost. Must be thread-safe.
  std::function<Status(std::string_view key)> before_change;
  std::function<Status(std::string_view key)> after_change;

  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override { return store_.Get(key, limit_bytes); }
  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    return store_.ReadInto(key, offset_bytes, bytes);
  }
  Result<ObjectInfo> Stat(std::string_view key) override { return store_.Stat(key); }
  bool DropCopy(std::string_view key) override { return store_.DropCopy(key); }
  using ObjectStore::PutNew;
  Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) override {
    return Change(key, [&] { return store_.PutNew(key, pieces); });
  }
  Status Replace(std::string_view key, ConstBytes bytes) override {
    return Change(key, [&] { return store_.Replace(key, bytes); });
  }
  Status Remove(std::string_view key) override {
    return Change(key, [&] { return store_.Remove(key); });
  }
  Status Sync(std::string_view key) override { return store_.Sync(key); }
  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override { return store_.List(prefix); }
  Result<int64_t> NowNs() override { return store_.NowNs(); }

 private:
  Status Change(std::string_view key, const std::function<Status()>& change) {
    if (before_change) XORBIT_RETURN_IF_ERROR(before_change(key));
    XORBIT_RETURN_IF_ERROR(change());
    return after_change ? after_change(key) : Status();
  }

  ObjectStore& store_;
};

}  // namespace xorbit
