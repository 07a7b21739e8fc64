#include "base/json_reader.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

namespace xorbit {
namespace {

using Json = nlohmann::json;

// Passes nlohmann's events on, and keeps the first error.
class Adapter final : public nlohmann::json_sax<Json> {
 public:
  Adapter(uint32_t max_depth, JsonEvents& events) : max_depth_(max_depth), events_(events) {}

  bool null() override { return Keep(events_.OtherValue()); }
  bool boolean(bool) override { return Keep(events_.OtherValue()); }
  bool number_integer(number_integer_t) override { return Keep(events_.OtherValue()); }
  bool number_unsigned(number_unsigned_t value) override { return Keep(events_.Unsigned(value)); }
  bool number_float(number_float_t, const string_t&) override { return Keep(events_.OtherValue()); }
  bool string(string_t& text) override { return Keep(events_.String(text)); }
  bool binary(binary_t&) override { return false; }  // binary formats only
  bool start_object(std::size_t) override { return Enter() && Keep(events_.BeginObject()); }
  bool key(string_t& key) override { return Keep(events_.Key(key)); }
  bool end_object() override { return Leave() && Keep(events_.EndObject()); }
  bool start_array(std::size_t) override { return Enter() && Keep(events_.BeginArray()); }
  bool end_array() override { return Leave() && Keep(events_.EndArray()); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    return Keep(CorruptError("is not valid JSON at byte " + std::to_string(position) + ": " + ReasonOf(error)));
  }

  Status Take() { return std::move(status_); }

 private:
  // nlohmann says "[json.exception.parse_error.101] parse error at ...: ... - <the reason>; last read: '<untrusted, any
  // length>'", or "[json.exception.out_of_range.406] number overflow parsing '<untrusted, any length>'".
  static std::string ReasonOf(const nlohmann::detail::exception& error) {
    std::string_view what = error.what();
    what = what.substr(0, std::min(what.find("; last read"), what.find(" parsing '")));
    const size_t dash = what.find(" - ");
    const size_t bracket = what.find("] ");
    if (dash != what.npos) return std::string(what.substr(dash + 3));
    return std::string(bracket != what.npos ? what.substr(bracket + 2) : what);
  }

  bool Keep(Status status) {
    if (status.ok()) return true;
    status_ = std::move(status);
    return false;
  }
  bool Enter() {
    if (depth_ == max_depth_) return Keep(CorruptError("is nested deeper than " + std::to_string(max_depth_) + " levels"));
    ++depth_;
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  const uint32_t max_depth_;
  JsonEvents& events_;
  uint32_t depth_ = 0;
  Status status_;
};

}  // namespace

Status RefuseHiddenText(std::string_view text) {
  const size_t zero = text.find('\0');
  if (zero != text.npos) return CorruptError("is not valid JSON: zero byte at byte " + std::to_string(zero));
  if (text.starts_with('\xef')) return CorruptError("is not valid JSON: starts with a byte order mark");
  return {};
}

Status ReadJson(ConstBytes text, uint32_t max_depth, JsonEvents& events) {
  XORBIT_RETURN_IF_ERROR(RefuseHiddenText(AsText(text)));
  Adapter adapter(max_depth, events);
  try {
    const char* begin = AsText(text).data();
    if (Json::sax_parse(begin, begin + text.size(), &adapter)) return {};
  } catch (const std::exception& error) {
    return CorruptError(std::string("cannot read JSON: ") + error.what());
  }
  return adapter.Take();
}

}  // namespace xorbit
