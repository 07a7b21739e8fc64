// Errors are values. A Status says what kind of thing went wrong and, in one line, what and what to do about it.
//
// The kinds differ because callers react differently: a usage error is the user's to correct, a refusal or corruption means
// "nothing was changed, do not retry with the same bytes", an I/O error may pass. Exceptions of libraries are caught where the
// library is called and become a Status there; assert() is for our own bugs only.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace xorbit {

enum class Code {
  kOk,
  kUsage,        // the caller asked for something that makes no sense (exit code 2)
  kRefused,      // well-formed, but not for this state: wrong base, wrong layout, locked (exit code 1)
  kCorrupt,      // bytes that do not follow their format, or whose hash does not match (exit code 1)
  kUnsupported,  // a format, codec or dtype this build does not handle (exit code 1)
  kNotFound,     // a file or key that is not there (exit code 3)
  kExists,       // create-only target that is already there (exit code 1)
  kIo,           // the operating system said no (exit code 3)
};

// Process exit code for an error of this kind; 0 for kOk.
int ExitCodeOf(Code code);
std::string_view NameOf(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) { assert(code != Code::kOk); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // One line, no trailing full stop or newline; empty on success.
  const std::string& message() const { return message_; }

  // The same error with "where: " in front of its message; success stays success.
  Status WithContext(std::string_view where) const {
    if (ok()) return {};
    return {code_, std::string(where) + ": " + message_};
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status UsageError(std::string message) { return {Code::kUsage, std::move(message)}; }
inline Status RefusedError(std::string message) { return {Code::kRefused, std::move(message)}; }
inline Status CorruptError(std::string message) { return {Code::kCorrupt, std::move(message)}; }
inline Status UnsupportedError(std::string message) { return {Code::kUnsupported, std::move(message)}; }
inline Status NotFoundError(std::string message) { return {Code::kNotFound, std::move(message)}; }
inline Status ExistsError(std::string message) { return {Code::kExists, std::move(message)}; }
inline Status IoError(std::string message) { return {Code::kIo, std::move(message)}; }
// "<what>: <strerror(error_number)>", kNotFound for ENOENT, kExists for EEXIST, kIo otherwise.
Status ErrnoError(std::string_view what, int error_number);

// A value, or the reason why there is none. Never both, never neither.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                  // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only when ok().
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace xorbit

#define XORBIT_CONCAT_INNER(a, b) a##b
#define XORBIT_CONCAT(a, b) XORBIT_CONCAT_INNER(a, b)

// Leaves the current function with the error, if there is one. Names are counted, so that a lambda inside the expression may
// use the macro too.
#define XORBIT_RETURN_IF_ERROR(expression) XORBIT_RETURN_IF_ERROR_INNER(XORBIT_CONCAT(error_, __COUNTER__), expression)
#define XORBIT_RETURN_IF_ERROR_INNER(error, expression)       \
  do {                                                        \
    if (::xorbit::Status error = (expression); !error.ok()) { \
      return error;                                           \
    }                                                         \
  } while (false)

// XORBIT_ASSIGN_OR_RETURN(auto x, F()): x = the value of F(), or leaves the current function with its error.
#define XORBIT_ASSIGN_OR_RETURN(target, expression) \
  XORBIT_ASSIGN_OR_RETURN_INNER(XORBIT_CONCAT(result_, __COUNTER__), target, expression)
#define XORBIT_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return result.status();                       \
  target = std::move(result).value()
