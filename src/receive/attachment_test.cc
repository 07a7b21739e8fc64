// The file comes back as it was written, and each way in which it can be wrong is refused by name.
#include "receive/attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

using testing::HasSubstr;

Attachment Sample() {
  Attachment attachment;
  attachment.live_map = "engine.map";
  attachment.segments = {{ExportedSegment::Kind::kSharedMemory, "/engine-0", "", 5'000},
                         {ExportedSegment::Kind::kCudaIpc, "00ff", "0123", uint64_t{100} << 30}};
  attachment.gate = {"", 0, 64};
  attachment.undo = {"", 0, 1'024};
  attachment.undo_bytes = 3'000;
  attachment.regions = {{"a", 1, 0}, {"b\n\"", 1, uint64_t{50} << 30}};
  attachment.kept = {{"c", 0, 4'096}};
  return attachment;
}

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Attachment, ComesBackAsItWasWritten) {
  Attachment attachment = Sample();
  EXPECT_EQ(ParseAttachmentJson(WriteAttachmentJson(attachment)).value(), attachment);
  attachment.undo = {};
  attachment.undo_bytes = 0;
  attachment.kept.clear();
  EXPECT_EQ(ParseAttachmentJson(WriteAttachmentJson(attachment)).value(), attachment);
}

TEST(Attachment, WhatIsWrongIsRefused) {
  const std::string text = WriteAttachmentJson(Sample());
  const auto why = [&](std::string_view what, std::string_view by) {
    const auto parsed = ParseAttachmentJson(Replaced(text, what, by));
    return parsed.ok() ? "nothing" : std::string(NameOf(parsed.status().code())) + " " + parsed.status().message();
  };
  EXPECT_THAT(why("xorbit-attachment", "xorbit-live-map"), HasSubstr("must be \"xorbit-attachment\""));
  EXPECT_THAT(why("\"format_version\":1", "\"format_version\":2"), HasSubstr("has format version 2"));
  EXPECT_THAT(why("shared-memory", "private-memory"), HasSubstr("shared-memory and cuda-ipc are"));
  EXPECT_THAT(why("[\"a\",1,0]", "[\"a\",2,0]"), HasSubstr("'regions' entry 0: the segment"));
  EXPECT_THAT(why("[\"a\",1,0]", "[\"a\",1]"), HasSubstr("must be [name, segment, offset]"));
  EXPECT_THAT(why("[\"a\",1,0]", "[\"a\",1,-1]"), HasSubstr("the offset"));
  EXPECT_THAT(why("[\"a\",1,0]", "[\"a\",1,0],[\"a\",0,8]"), HasSubstr("'regions' has 'a' twice"));
  EXPECT_THAT(why("[\"c\",0,4096]", "[\"c\",0,4096],[\"c\",0,8]"), HasSubstr("'kept' has 'c' twice"));
  EXPECT_THAT(why("\"gate\":[0,64]", "\"gate\":[0]"), HasSubstr("'gate'"));
  EXPECT_THAT(why("\"gate\":[0,64],", ""), HasSubstr("gate"));
  EXPECT_THAT(why("\"live_map\":\"engine.map\"", "\"live_map\":7"), HasSubstr("live_map"));
  EXPECT_THAT(why("\"format\"", "\"critical\":[\"new\"],\"new\":1,\"format\""), HasSubstr("new"));
  EXPECT_EQ(why("\"format\"", "\"new\":1,\"format\""), "nothing");
}

}  // namespace
}  // namespace xorbit
