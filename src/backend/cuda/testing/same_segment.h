// What a device's encoder must give, compared with the CPU's byte by byte.
#pragma once

#include <gtest/gtest.h>

#include "codec/segment_image.h"

namespace xorbit::cuda {

// However the bodies are cut into pieces.
inline void ExpectSame(const EncodedSegment& want, const EncodedSegment& got) {
  EXPECT_EQ(want.change_count, got.change_count);
  EXPECT_EQ(want.record_count, got.record_count);
  EXPECT_EQ(want.change, got.change);
  EXPECT_EQ(want.tables, got.tables);
  EXPECT_EQ(want.records, got.records);
  EXPECT_EQ(want.outer, got.outer);
  EXPECT_EQ(SegmentImage(want).body, SegmentImage(got).body);
  EXPECT_EQ(want.cuts, got.cuts);
}

}  // namespace xorbit::cuda
