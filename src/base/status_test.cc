// The contract that callers and exit codes rest on: kinds, contexts, macros, and overflow as an answer.
#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/checked_math.h"

namespace xorbit {
namespace {

TEST(StatusTest, SuccessIsTheDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_TRUE(status.WithContext("here").ok());
}

TEST(StatusTest, ContextKeepsTheKind) {
  const Status status = CorruptError("bad magic").WithContext("a.xob").WithContext("delta");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "delta: a.xob: bad magic");
}

TEST(StatusTest, ErrnoDecidesTheKind) {
  EXPECT_EQ(ErrnoError("open", ENOENT).code(), Code::kNotFound);
  EXPECT_EQ(ErrnoError("open", EEXIST).code(), Code::kExists);
  EXPECT_EQ(ErrnoError("open", EACCES).code(), Code::kIo);
  EXPECT_EQ(ErrnoError("open", EACCES).message(), "open: Permission denied");
}

TEST(StatusTest, ExitCodesFollowTheCommandLineContract) {
  EXPECT_EQ(ExitCodeOf(Code::kOk), 0);
  EXPECT_EQ(ExitCodeOf(Code::kRefused), 1);
  EXPECT_EQ(ExitCodeOf(Code::kCorrupt), 1);
  EXPECT_EQ(ExitCodeOf(Code::kUnsupported), 1);
  EXPECT_EQ(ExitCodeOf(Code::kExists), 1);
  EXPECT_EQ(ExitCodeOf(Code::kUsage), 2);
  EXPECT_EQ(ExitCodeOf(Code::kNotFound), 3);
  EXPECT_EQ(ExitCodeOf(Code::kIo), 3);
}

Result<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return UsageError("odd");
  return std::make_unique<int>(value / 2);
}

Result<int> Quarter(int value) {
  XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(value));
  XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

TEST(ResultTest, MacrosPassValuesAndErrorsOn) {
  const Result<int> good = Quarter(12);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  EXPECT_TRUE(good.status().ok());
  EXPECT_EQ(Quarter(3).status().message(), "odd");
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

TEST(CheckedMathTest, OverflowIsAnAnswer) {
  constexpr uint64_t kMax = UINT64_MAX;
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 31), uint64_t{1} << 63);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(DivideRoundUp(0, 8), 0);
  EXPECT_EQ(DivideRoundUp(8, 8), 1);
  EXPECT_EQ(DivideRoundUp(kMax, 8), (kMax >> 3) + 1);
}

}  // namespace
}  // namespace xorbit
