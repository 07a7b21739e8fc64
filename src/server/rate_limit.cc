#include "server/rate_limit.h"

#include <algorithm>
#include <cmath>

namespace xorbit {

int64_t RateLimit::Take(size_t role, Time now) {
  if (per_second_ == 0) return 0;
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[role];
  const double passed = std::chrono::duration<double>(now - bucket.filled).count();
  bucket.filled = std::max(bucket.filled, now);  // threads may come in another order than their times
  bucket.tokens = std::min(std::max(per_second_, 1.0), bucket.tokens + std::max(passed, 0.0) * per_second_);
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return 0;
  }
  constexpr double kDay = 86'400;  // whoever waits longer may as well ask before
  return static_cast<int64_t>(std::clamp(std::ceil((1 - bucket.tokens) / per_second_), 1.0, kDay));
}

}  // namespace xorbit
