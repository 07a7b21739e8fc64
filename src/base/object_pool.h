// Scratch objects that a parallel loop lends to its iterations, so that memory is set up once a thread and not once an index.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace xorbit {

// Holds as many objects as were ever lent at once. Thread-safe; must outlive every lent object.
template <typename T>
class ObjectPool {
 public:
  // Gives the object back.
  struct Return {
    ObjectPool* pool;
    void operator()(T* object) const {
      const std::lock_guard lock(pool->mutex_);
      pool->idle_.emplace_back(object);
    }
  };
  using Lent = std::unique_ptr<T, Return>;

  // `make` is called when all objects are lent, and must be safe to call from several threads at once.
  explicit ObjectPool(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}
  ObjectPool(const ObjectPool&) = delete;
  ObjectPool& operator=(const ObjectPool&) = delete;

  // In whatever state its last borrower left it.
  Lent Borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Lent lent(idle_.back().release(), Return{this});
        idle_.pop_back();
        return lent;
      }
    }
    return Lent(make_().release(), Return{this});
  }

 private:
  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;  // guarded by mutex_
};

}  // namespace xorbit
