// Reads untrusted JSON as a stream of events. A tree of the text is never built: it would cost many times the text's memory,
// and it would silently keep one of two equal keys, so that two readers of one file could see different things.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace xorbit {

// Receives the events of one text in order; keys and values are only lent for the call. The first error ends the reading.
// Repeated keys are reported like any other: who cares about them compares them.
class JsonEvents {
 public:
  JsonEvents() = default;
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;
  virtual ~JsonEvents() = default;

  virtual Status BeginObject() = 0;
  virtual Status EndObject() = 0;
  virtual Status BeginArray() = 0;
  virtual Status EndArray() = 0;
  virtual Status Key(std::string_view key) = 0;      // valid UTF-8
  virtual Status String(std::string_view text) = 0;  // valid UTF-8
  virtual Status Unsigned(uint64_t value) = 0;       // a number written without sign, fraction or exponent, below 2^64
  virtual Status OtherValue() = 0;                   // null, true, false, or any other number
};

// One JSON text, with nothing but white space after it. Nesting deeper than `max_depth` (a bare value has depth 0, {} has 1),
// malformed JSON and invalid UTF-8 are kCorrupt with the place; an error of `events` comes back as it is. Does not recurse;
// memory is bounded by a small multiple of the longest string.
Status ReadJson(ConstBytes text, uint32_t max_depth, JsonEvents& events);

// kCorrupt for what nlohmann's parser lets through: a zero byte, which it takes for the end of the text so that anything may
// follow unseen, and a byte order mark. ReadJson and ParseJson both ask it.
Status RefuseHiddenText(std::string_view text);

}  // namespace xorbit
