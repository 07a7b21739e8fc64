// Whatever the text holds, the reader must report it truly or refuse it, without recursion and without repeating it in
// messages.
#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace xorbit {
namespace {

using testing::HasSubstr;

// Writes the events down as text.
class Recorder final : public JsonEvents {
 public:
  Status BeginObject() override { return Add("{"); }
  Status EndObject() override { return Add("}"); }
  Status BeginArray() override { return Add("["); }
  Status EndArray() override { return Add("]"); }
  Status Key(std::string_view key) override { return Add(std::string(key) + ":"); }
  Status String(std::string_view text) override { return Add("\"" + std::string(text) + "\""); }
  Status Unsigned(uint64_t value) override { return value == 13 ? RefusedError("unlucky") : Add(std::to_string(value)); }
  Status OtherValue() override { return Add("?"); }

  std::string events;

 private:
  Status Add(std::string_view event) {
    events += event;
    events += ' ';
    return {};
  }
};

Status Read(std::string_view text, std::string* events = nullptr, uint32_t max_depth = 4) {
  Recorder recorder;
  Status status = ReadJson(AsBytes(text), max_depth, recorder);
  if (events != nullptr) *events = recorder.events;
  return status;
}

TEST(JsonReaderTest, ReportsEventsInOrder) {
  std::string events;
  ASSERT_TRUE(Read(R"( {"a": [1, "x\u00e9\n"], "a": {}, "b": 18446744073709551615} )", &events).ok());
  EXPECT_EQ(events, "{ a: [ 1 \"x\xc3\xa9\n\" ] a: { } b: 18446744073709551615 } ");
}

TEST(JsonReaderTest, OnlyPlainNonNegativeIntegersAreUnsigned) {
  for (const char* value : {"-1", "-0", "1.0", "1e3", "18446744073709551616", "null", "true", "false"}) {
    std::string events;
    EXPECT_TRUE(Read(value, &events).ok()) << value;
    EXPECT_EQ(events, "? ") << value;
  }
}

TEST(JsonReaderTest, RefusesMalformedTextWithPlaceAndReason) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "{a:1}", "01", "+1", "1 2", "{} x", "// c\n1", "'a'", "\"\\ud800\"",
                           "\"\t\"", "NaN", "\xef\xbb\xbf{}"}) {
    const Status status = Read(text);
    EXPECT_EQ(status.code(), Code::kCorrupt) << text;
    EXPECT_THAT(status.message(), HasSubstr("not valid JSON")) << text;
  }
  EXPECT_THAT(Read("[\"\xff\"]").message(), HasSubstr("at byte 3: invalid string: ill-formed UTF-8 byte"));
}

TEST(JsonReaderTest, NothingHidesBehindAZeroByte) {
  const Status status = Read(std::string_view("{}\0{\"a\":1}", 10));
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("zero byte at byte 2"));
}

TEST(JsonReaderTest, MessagesDoNotRepeatTheText) {
  const std::string long_number = std::string(100'000, '9');
  EXPECT_LT(Read(long_number).message().size(), 200);
  const Status status = Read("[\"" + std::string(100'000, 'x') + "\n\"]");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_LT(status.message().size(), 200);
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

TEST(JsonReaderTest, LimitsDepthWithoutRecursion) {
  EXPECT_TRUE(Read("[[{}]]", nullptr, 3).ok());
  EXPECT_THAT(Read("[[{}]]", nullptr, 2).message(), HasSubstr("is nested deeper than 2 levels"));
  const Status status = Read(std::string(10'000'000, '['), nullptr, UINT32_MAX);
  EXPECT_EQ(status.code(), Code::kCorrupt);
}

TEST(JsonReaderTest, TheReceiversErrorEndsTheReading) {
  std::string events;
  const Status status = Read("[1, 13, 2]", &events);
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_EQ(status.message(), "unlucky");
  EXPECT_EQ(events, "[ 1 ");
}

}  // namespace
}  // namespace xorbit
