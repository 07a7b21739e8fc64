#include "publish/decide.h"

#include <functional>
#include <string>
#include <thread>

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

// Calls `attempt` until it is neither kNotFound nor late; the last kNotFound at the deadline.
template <typename T>
Result<T> Retry(const DecideOptions& options, const std::function<Result<T>()>& attempt) {
  const Clock::time_point end = Clock::now() + options.deadline;
  while (true) {
    Result<T> result = attempt();
    if (result.ok() || result.status().code() != Code::kNotFound || Clock::now() >= end) return result;
    std::this_thread::sleep_for(options.poll_interval);
  }
}

}  // namespace

Result<VersionRecord> SealAndDecide(Stream& stream, const PublicationPlace& place, const DecideOptions& options) {
  const auto attempt = [&]() -> Result<VersionRecord> {
    XORBIT_ASSIGN_OR_RETURN(const auto decided, stream.Record(place.target_version));
    if (decided) return *decided;
    XORBIT_ASSIGN_OR_RETURN(const Manifest manifest, stream.Seal(place));
    return stream.Decide(CommitRecord(manifest));
  };
  Result<VersionRecord> result = Retry<VersionRecord>(options, attempt);
  if (result.ok() || result.status().code() != Code::kNotFound) return result;
  if (options.abort_at_deadline) return stream.Decide(AbortRecord(place.target_version));
  return RefusedError("version " + std::to_string(place.target_version) +
                      " could not be sealed in time: " + result.status().message());
}

Result<Manifest> SealWhenComplete(Stream& stream, const PublicationPlace& place, const DecideOptions& options) {
  Result<Manifest> result = Retry<Manifest>(options, [&] { return stream.Seal(place); });
  if (result.ok() || result.status().code() != Code::kNotFound) return result;
  return RefusedError("the fold to version " + std::to_string(place.target_version) +
                      " could not be sealed in time: " + result.status().message());
}

}  // namespace xorbit
