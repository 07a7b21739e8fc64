// What an actor reaches the store through: a disk that may be full, and a store whose calls fail, lie or come late, as the
// actor's seat on the board says.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/steady_clock.h"
#include "base/testing/forwarding_file_ops.h"
#include "fault_campaign/board.h"
#include "tensor/random_model.h"
#include "transport/testing/forwarding_store.h"

namespace xorbit::fault_campaign {

class FullDisk final : public ForwardingFileOps {
 public:
  explicit FullDisk(const Seat& seat) : seat_(seat) {}
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    if (SteadyNs() >= seat_.disk_full_until_ns) return ForwardingFileOps::Pwrite(fd, bytes, offset_bytes);
    XORBIT_RETURN_IF_ERROR(ForwardingFileOps::Pwrite(fd, bytes.first(bytes.size() / 2), offset_bytes));
    return IoError("injected: No space left on device");
  }

 private:
  const Seat& seat_;
};

// One thread at a time, unless the seat has no fault.
class FaultyStore final : public ForwardingStore {
 public:
  FaultyStore(ObjectStore& store, Board& board, Seat& seat, uint64_t seed)
      : ForwardingStore(store), store_(store), board_(board), seat_(seat), random_(seed) {}

  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override {
    if (Takes(StoreFault::kReadFails)) return IoError("injected: read failed");
    Result<Buffer> bytes = ForwardingStore::Get(key, limit_bytes);
    if (!bytes.ok() || bytes->empty()) return bytes;
    if (Takes(StoreFault::kReadFlips)) (*bytes)[random_() % bytes->size()] ^= static_cast<uint8_t>(1U << random_() % 8);
    if (Takes(StoreFault::kReadCut)) bytes->resize(random_() % bytes->size());
    return bytes;
  }
  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    if (Takes(StoreFault::kReadFails)) return IoError("injected: read failed");
    if (Takes(StoreFault::kReadCut)) return CorruptError("injected: the object ends before");
    XORBIT_RETURN_IF_ERROR(ForwardingStore::ReadInto(key, offset_bytes, bytes));
    if (!bytes.empty() && Takes(StoreFault::kReadFlips)) {
      bytes[random_() % bytes.size()] ^= static_cast<uint8_t>(1U << random_() % 8);
    }
    return {};
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    if (Takes(StoreFault::kReadFails)) return IoError("injected: read failed");
    return ForwardingStore::Stat(key);
  }
  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override {
    if (Takes(StoreFault::kReadFails)) return IoError("injected: list failed");
    return ForwardingStore::List(prefix);
  }

  using ObjectStore::PutNew;
  Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) override {
    if (Takes(StoreFault::kWriteFails)) return IoError("injected: write failed");
    if (Takes(StoreFault::kWrittenLate)) {
      WriteLater(key, pieces);
      return IoError("injected: no reply yet");
    }
    const Status put = ForwardingStore::PutNew(key, pieces);
    if (put.ok() && Takes(StoreFault::kReplyLost)) return IoError("injected: reply lost");
    return put;
  }

  Result<int64_t> NowNs() override {
    XORBIT_ASSIGN_OR_RETURN(const int64_t now_ns, ForwardingStore::NowNs());
    return now_ns + seat_.clock_jump_ns;
  }

 private:
  bool Takes(StoreFault fault) {
    if (seat_.fault != fault) return false;
    uint64_t left = seat_.fault_calls;
    while (left > 0 && !seat_.fault_calls.compare_exchange_weak(left, left - 1)) {
    }
    return left > 0;
  }

  // By a process of its own: the write comes whatever becomes of whoever asked for it.
  void WriteLater(std::string_view key, std::span<const ConstBytes> pieces) {
    const auto wait = std::chrono::milliseconds(Between(random_, 1, 60));
    ++board_.late_writer_count;
    const pid_t child = ::fork();
    if (child < 0) --board_.late_writer_count;
    if (child != 0) return;
    std::this_thread::sleep_for(wait);
    static_cast<void>(store_.PutNew(key, pieces));
    --board_.late_writer_count;
    ::_exit(0);
  }

  ObjectStore& store_;
  Board& board_;
  Seat& seat_;
  Random random_;
};

}  // namespace xorbit::fault_campaign
