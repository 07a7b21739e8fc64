#include "receive/cohort.h"

namespace xorbit {
namespace {

class Alone final : public CohortMember {
 public:
  bool partial() const override { return false; }
  Result<std::optional<CohortStanding>> Join() override { return std::optional<CohortStanding>(); }
  Result<std::optional<SessionTarget>> Pending() override { return std::optional<SessionTarget>(); }
  Result<SessionTarget> Open(const SessionTarget& wanted) override { return wanted; }
  Result<bool> AwaitGo(const PreparedReceipt& receipt) override {
    reason_ = receipt.reason;
    if (!reason_.empty()) return false;
    reason_ = AddUp({&receipt, 1}).message();
    return reason_.empty();
  }
  Result<bool> AwaitGate(const std::string& failure) override { return Take(failure); }
  Result<bool> AwaitOutcome(const std::string& failure, const StateDigest& /*state*/) override { return Take(failure); }
  const std::string& last_reason() const override { return reason_; }

 private:
  bool Take(const std::string& failure) {
    reason_ = failure;
    return failure.empty();
  }
  std::string reason_;
};

}  // namespace

std::unique_ptr<CohortMember> AloneMember() { return std::make_unique<Alone>(); }

}  // namespace xorbit
