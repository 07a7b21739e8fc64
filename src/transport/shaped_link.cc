#include "transport/shaped_link.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "base/steady_clock.h"
#include "transport/socket_io.h"

namespace xorbit {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{256} << 10;
constexpr std::chrono::microseconds kPoll{500};
constexpr uint64_t kMostKeyBytes = 1024;

// What goes before an object's key and blocks; before each block goes the time at which the wire brings it.
struct ObjectHeader {
  uint64_t number;  // of objects, in the order in which they were sent off
  uint64_t byte_count;
  uint32_t key_bytes;
  uint32_t lands_last;  // of all objects with lower numbers
  int64_t sent_ns;
  int64_t arrives_ns;
};

void SleepUntil(int64_t time_ns) {
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time_ns)));
}

template <typename T>
ConstBytes BytesOfValue(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}
template <typename T>
MutableBytes BytesOfValue(T& value) {
  return {reinterpret_cast<uint8_t*>(&value), sizeof value};
}

// The wire, which all lanes share. Thread-safe.
class TokenBucket {
 public:
  explicit TokenBucket(const LinkShape& shape)
      : ns_per_byte_(8 / shape.gigabits_per_second), delay_ns_(shape.one_way_delay.count()) {}

  struct Slot {
    int64_t begins_ns = 0;
    int64_t arrives_ns = 0;  // its end, and the delay
  };
  Slot Take(uint64_t byte_count) {
    const auto length = static_cast<int64_t>(std::ceil(static_cast<double>(byte_count) * ns_per_byte_));
    int64_t free_from = free_from_;
    int64_t begin = 0;
    do {
      begin = std::max(free_from, SteadyNs());
    } while (!free_from_.compare_exchange_weak(free_from, begin + length));
    return {begin, begin + length + delay_ns_};
  }

 private:
  double ns_per_byte_;
  int64_t delay_ns_;
  std::atomic<int64_t> free_from_{0};
};

// Objects on their way to the lanes. Thread-safe.
class SendQueue {
 public:
  struct Item {
    std::string key;
    uint64_t number = 0;
    bool lands_last = false;
  };

  void Add(const std::string& key, bool lands_last) {
    const std::lock_guard lock(mutex_);
    items_.push_back({key, count_++, lands_last});
    changed_.notify_one();
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  // Waits for the next. False at the end.
  bool Take(Item* item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_closed_ || !items_.empty(); });
    if (items_.empty()) return false;
    *item = std::move(items_.front());
    items_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  uint64_t count_ = 0;
  bool is_closed_ = false;
};

// Finds what is new in a store. An object that vouches for others waits for one more listing: those that were put before it are
// in that one, if they were not in its own.
class Lister {
 public:
  Lister(ObjectStore& store, const std::function<LinkTurn(std::string_view key)>& turn_of) : store_(store), turn_of_(turn_of) {}

  Status AddNew(SendQueue* queue) {
    XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store_.List(""));
    const std::string last_due = vouching_.empty() ? std::string() : *vouching_.rbegin();
    for (const ObjectInfo& object : objects) {
      const LinkTurn turn = turn_of_(object.key);
      if (turn == LinkTurn::kNever || !seen_.insert(object.key).second) continue;
      if (turn == LinkTurn::kAfterOthers) {
        vouching_.insert(object.key);
      } else {
        queue->Add(object.key, false);
      }
    }
    while (!vouching_.empty() && *vouching_.begin() <= last_due) {
      queue->Add(*vouching_.begin(), true);
      vouching_.erase(vouching_.begin());
    }
    return {};
  }

 private:
  ObjectStore& store_;
  const std::function<LinkTurn(std::string_view key)>& turn_of_;
  std::set<std::string, std::less<>> seen_;
  std::set<std::string, std::less<>> vouching_;  // seen and not yet sent
};

Status SendObject(const SendQueue::Item& item, const Buffer& bytes, TokenBucket* wire, const UniqueFd& socket) {
  const TokenBucket::Slot slot = wire->Take(sizeof(ObjectHeader) + item.key.size());
  const ObjectHeader header{item.number,    bytes.size(),   static_cast<uint32_t>(item.key.size()), item.lands_last ? 1U : 0U,
                            slot.begins_ns, slot.arrives_ns};
  XORBIT_RETURN_IF_ERROR(SendAll(socket, BytesOfValue(header)));
  XORBIT_RETURN_IF_ERROR(SendAll(socket, AsBytes(item.key)));
  for (uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const ConstBytes block = ConstBytes(bytes).subspan(at, std::min(kBlockBytes, bytes.size() - at));
    const int64_t arrives_ns = wire->Take(block.size()).arrives_ns;
    XORBIT_RETURN_IF_ERROR(SendAll(socket, BytesOfValue(arrives_ns)));
    XORBIT_RETURN_IF_ERROR(SendAll(socket, block));
  }
  return {};
}

// The far end of all lanes. Thread-safe.
class Landing {
 public:
  Landing(ObjectStore& store, const std::vector<UniqueFd>& sockets, std::vector<LinkedObject>* objects)
      : store_(store), sockets_(sockets), objects_(objects) {}

  // Until the lane's near end has ended.
  Status RunLane(size_t lane) {
    const Status status = TakeObjects(sockets_[lane]);
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      has_failed_ = true;
      landed_.notify_all();
      for (const UniqueFd& socket : sockets_) EndConnection(socket);
    }
    return status;
  }

 private:
  Status TakeObjects(const UniqueFd& socket) {
    for (;;) {
      ObjectHeader header{};
      XORBIT_ASSIGN_OR_RETURN(const bool is_there, ReceiveAll(socket, BytesOfValue(header)));
      if (!is_there) return {};
      if (header.key_bytes > kMostKeyBytes) return CorruptError("a link's header makes no sense");
      LinkedObject object{std::string(header.key_bytes, ' '), header.byte_count, header.sent_ns, header.arrives_ns, 0};
      XORBIT_RETURN_IF_ERROR(Fill(socket, {reinterpret_cast<uint8_t*>(object.key.data()), object.key.size()}));
      Buffer bytes(header.byte_count);
      for (uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
        XORBIT_RETURN_IF_ERROR(Fill(socket, BytesOfValue(object.arrives_ns)));
        XORBIT_RETURN_IF_ERROR(Fill(socket, MutableBytes(bytes).subspan(at, std::min(kBlockBytes, bytes.size() - at))));
        SleepUntil(object.arrives_ns);
      }
      SleepUntil(object.arrives_ns);
      XORBIT_RETURN_IF_ERROR(Land(header, std::move(object), bytes));
    }
  }
  static Status Fill(const UniqueFd& socket, MutableBytes bytes) {
    XORBIT_ASSIGN_OR_RETURN(const bool is_there, ReceiveAll(socket, bytes));
    return is_there ? Status() : IoError("a link ended within an object");
  }
  Status Land(const ObjectHeader& header, LinkedObject object, const Buffer& bytes) {
    if (header.lands_last != 0) {
      std::unique_lock lock(mutex_);
      landed_.wait(lock, [&] { return has_failed_ || first_missing_ >= header.number; });
      if (has_failed_) return IoError("another lane of the link has failed");
    }
    XORBIT_RETURN_IF_ERROR(store_.PutNew(object.key, bytes));
    object.landed_ns = SteadyNs();
    const std::lock_guard lock(mutex_);
    landed_numbers_.insert(header.number);
    while (landed_numbers_.erase(first_missing_) > 0) ++first_missing_;
    objects_->push_back(std::move(object));
    landed_.notify_all();
    return {};
  }

  ObjectStore& store_;
  const std::vector<UniqueFd>& sockets_;
  std::mutex mutex_;
  std::condition_variable landed_;
  // Guarded by mutex_.
  uint64_t first_missing_ = 0;         // all objects with lower numbers have landed,
  std::set<uint64_t> landed_numbers_;  // and these
  bool has_failed_ = false;
  std::vector<LinkedObject>* objects_;
};

}  // namespace

Result<ShapedLink> ShapedLink::Make(const LinkShape& shape) {
  if (!(shape.gigabits_per_second > 0) || !std::isfinite(shape.gigabits_per_second) || shape.one_way_delay.count() < 0 ||
      shape.lanes < 1) {
    return UsageError("a link needs a rate above 0, a delay of at least 0 and at least one lane");
  }
  XORBIT_ASSIGN_OR_RETURN(LoopbackListener listener, ListenOnLoopback(shape.lanes));
  return ShapedLink(shape, std::move(listener.fd), listener.port);
}

Status ShapedLink::Send(ObjectStore& from, const std::function<LinkTurn(std::string_view key)>& turn_of,
                        const std::function<bool()>& is_over) const {
  TokenBucket wire(shape_);
  SendQueue queue;
  std::atomic<bool> has_failed{false};
  const auto list = [&]() -> Status {
    Lister lister(from, turn_of);
    // Twice after the end: what vouches for others is found by one listing and due after the next.
    for (int listings_left = 2; listings_left > 0 && !has_failed; std::this_thread::sleep_for(kPoll)) {
      if (is_over()) --listings_left;
      XORBIT_RETURN_IF_ERROR(lister.AddNew(&queue));
    }
    return {};
  };
  const auto carry = [&]() -> Status {
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd socket, ConnectToLoopback(port_));
    for (SendQueue::Item item; queue.Take(&item);) {
      XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, from.Get(item.key, UINT64_MAX));
      XORBIT_RETURN_IF_ERROR(SendObject(item, bytes, &wire, socket));
    }
    return {};
  };
  const int workers = shape_.lanes + 1;
  return ParallelFor(workers, static_cast<uint64_t>(workers), [&](uint64_t worker) -> Status {
    const Status status = worker == 0 ? list() : carry();
    if (!status.ok()) has_failed = true;
    if (worker == 0 || !status.ok()) queue.Close();
    return status;
  });
}

Status ShapedLink::Receive(ObjectStore& to, std::vector<LinkedObject>* objects) const {
  std::vector<UniqueFd> sockets;
  for (int lane = 0; lane < shape_.lanes; ++lane) {
    XORBIT_ASSIGN_OR_RETURN(UniqueFd socket, AcceptFrom(listener_));
    sockets.push_back(std::move(socket));
  }
  Landing landing(to, sockets, objects);
  return ParallelFor(shape_.lanes, sockets.size(), [&](uint64_t lane) { return landing.RunLane(lane); });
}

}  // namespace xorbit
