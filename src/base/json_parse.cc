// ParseJson: builds what the shape has a place for, and only that.
#include <utility>

#include "base/json.h"
#include "base/json_reader.h"

namespace xorbit {
namespace {

// Builds the value from the parser's events. The library's own builder keeps everything, of several equal keys the last, and
// has no depth limit.
class ShapedBuilder final : public nlohmann::json_sax<Json> {
 public:
  ShapedBuilder(const JsonShape& shape, uint32_t max_depth) : shape_(shape), max_depth_(max_depth) {}

  Json& root() { return root_; }
  const Status& status() const { return status_; }

  bool null() override { return Add(Json(nullptr)); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Add(Json(value)); }
  bool string(string_t& value) override { return Add(Json(std::move(value))); }
  bool binary(binary_t&) override { return Fail("is not JSON text"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    if (dropped_depth_ > 0) return true;
    Level& level = open_.back();
    level.next = ShapeOfField(*level.shape, key);
    const bool unknown = level.next == nullptr;
    if (unknown && ++level.unknown_count > kMaxUnknownJsonFields) {
      return Fail("has an object of more than " + std::to_string(kMaxUnknownJsonFields) + " unknown fields");
    }
    const auto [at, is_new] = level.value->emplace(key, nullptr);
    if (!is_new) return Fail("repeats a key in an object");
    level.pending = &*at;
    level.key = key;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail("is not valid JSON near byte " + std::to_string(position));
  }

 private:
  // An open array or object that is kept.
  struct Level {
    Json* value = nullptr;
    const JsonShape* shape = nullptr;
    const JsonShape* next = nullptr;  // shape of the value that comes next; null if there is no place for it
    uint64_t count = 0;               // of elements, or of fields that `each` describes
    uint64_t unknown_count = 0;
    std::string key;          // of an object: read last
    Json* pending = nullptr;  // its value
  };

  static const JsonShape* ShapeOfField(const JsonShape& shape, std::string_view key) {
    for (const JsonShape::Field& field : shape.fields) {
      if (field.key == key) return &field.shape;
    }
    return shape.each.get();
  }

  // Called for every value that is not within a dropped one: counts it in its array or object.
  bool Count() {
    if (open_.empty()) return true;
    Level& level = open_.back();
    if (level.value->is_array()) level.next = level.shape->each.get();
    if (level.next == nullptr || level.next != level.shape->each.get()) return true;
    if (++level.count <= level.shape->max_count) return true;
    return Fail("has more than " + std::to_string(level.shape->max_count) + " entries in an array or object");
  }

  const JsonShape* NextShape() const { return open_.empty() ? &shape_ : open_.back().next; }

  // Stores the value where the innermost open container wants it. Pointers on the stack stay valid: a container grows only
  // while it is the innermost one.
  Json* Store(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    *level.pending = std::move(value);
    return level.pending;
  }

  bool Add(Json value) {
    if (dropped_depth_ > 0) return true;
    if (!Count()) return false;
    const JsonShape* shape = NextShape();
    if (shape == nullptr) return true;
    return HandOver(*shape, Store(std::move(value)));
  }

  // `value` is complete: gives it away if somebody takes it.
  bool HandOver(const JsonShape& shape, Json* value) {
    if (!shape.take) return true;
    if (open_.empty()) return true;
    Level& level = open_.back();
    status_ = shape.take(level.key, std::move(*value));
    if (level.value->is_array()) {
      level.value->erase(level.value->size() - 1);
    } else {
      level.value->erase(level.key);
    }
    return status_.ok();
  }

  bool Open(Json container) {
    if (open_.size() + dropped_depth_ == max_depth_) {
      return Fail("is nested deeper than " + std::to_string(max_depth_) + " levels");
    }
    if (dropped_depth_ == 0 && !Count()) return false;
    const JsonShape* shape = dropped_depth_ == 0 ? NextShape() : nullptr;
    if (shape == nullptr) {
      ++dropped_depth_;
      return true;
    }
    Json* value = Store(std::move(container));
    open_.push_back(
        {.value = value, .shape = shape, .next = nullptr, .count = 0, .unknown_count = 0, .key = {}, .pending = nullptr});
    return true;
  }

  bool Close() {
    if (dropped_depth_ > 0) {
      --dropped_depth_;
      return true;
    }
    const Level closed = std::move(open_.back());
    open_.pop_back();
    return HandOver(*closed.shape, closed.value);
  }

  bool Fail(std::string why) {
    if (status_.ok()) status_ = CorruptError(std::move(why));
    return false;
  }

  const JsonShape& shape_;
  uint32_t max_depth_;
  Json root_;
  std::vector<Level> open_;
  uint32_t dropped_depth_ = 0;  // open containers that are dropped, inside the innermost of open_
  Status status_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonShape& shape, uint32_t max_depth) {
  XORBIT_RETURN_IF_ERROR(RefuseHiddenText(text));
  ShapedBuilder builder(shape, max_depth);
  bool parsed = false;
  try {
    parsed = Json::sax_parse(text, &builder);
  } catch (const std::exception&) {
    return CorruptError("is not valid JSON");
  }
  if (!parsed) return builder.status();
  return std::move(builder.root());
}

}  // namespace xorbit
