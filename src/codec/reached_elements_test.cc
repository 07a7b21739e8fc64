// What no record reaches is left alone, and nothing that a record reaches ever is.
#include "codec/reached_elements.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "change/list_source.h"
#include "codec/decoded_source.h"
#include "codec/sparse_test_util.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

// Records without contents.
class FakeDecoder final : public SegmentDecoder {
 public:
  explicit FakeDecoder(std::vector<RecordInfo> infos) : infos_(std::move(infos)) {}
  uint64_t record_count() const override { return infos_.size(); }
  RecordInfo info(uint64_t record_index) const override { return infos_[record_index]; }
  Status Decode(uint64_t /*record_index*/, DecodedRecord* /*out*/) const override { return CorruptError("is empty"); }

 private:
  std::vector<RecordInfo> infos_;
};

std::vector<RecordInfo> RandomRecords(Random& random, uint64_t element_count) {
  std::vector<RecordInfo> infos;
  for (uint64_t at = random() % 300; at < element_count; at += 1 + random() % 300) {
    const uint64_t last = std::min(at + random() % 40, element_count - 1);
    infos.push_back({.first = at, .last = last, .change_count = 1});
    at = last;
  }
  return infos;
}

TEST(ReachedElements, TouchWhateverARecordSpans) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  uint64_t touched_count = 0;
  uint64_t untouched_count = 0;
  for (int round = 0; round < 60; ++round) {
    const Layout layout = RandomLayout(random, 8, 3000);
    ReachedElements reached;
    std::vector<std::vector<bool>> changed;  // by tensor and element
    for (const TensorSpec& tensor : layout.tensors()) changed.emplace_back(tensor.unit_count());
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      const FakeDecoder decoder(RandomRecords(random, map.element_count()));
      reached.Add(map, decoder);
      for (uint64_t i = 0; i < decoder.record_count(); ++i) {
        for (uint64_t e = decoder.info(i).first; e <= decoder.info(i).last; ++e) {
          const auto run = RunAt(map, e);
          changed[run.tensor_index][run.tensor_element] = true;
        }
      }
    }
    reached.Seal();
    for (const SegmentMap& target : RandomSegments(random, layout)) {
      for (uint64_t at = 0; at < target.element_count();) {
        const uint64_t count = std::min(1 + random() % 100, target.element_count() - at);
        bool any = false;
        for (uint64_t e = at; e < at + count && !any; ++e) {
          const auto run = RunAt(target, e);
          any = changed[run.tensor_index][run.tensor_element];
        }
        const bool touched = reached.Touch(target, at, count);
        EXPECT_TRUE(touched || !any);
        ++(touched ? touched_count : untouched_count);
        at += count;
      }
    }
  }
  EXPECT_GT(touched_count, 100U);
  EXPECT_GT(untouched_count, 100U);
}

// A layout may say 2^48 elements in a few bytes; only what records reach may cost time.
TEST(ReachedElements, WindowsOfAHugeTensorThatNothingChanges) {
  constexpr uint64_t kElements = uint64_t{1} << 48;
  constexpr uint64_t kWindows = kElements / kWindowElements;
  const SegmentMap map = OneTensorMap(2, kElements);
  const FakeDecoder decoder({{.first = kElements / 2 + 5, .last = kElements / 2 + 9, .change_count = 2}});
  ReachedElements reached;
  reached.Add(map, decoder);
  reached.Seal();
  const DecodedSource source(map, {{&map, &decoder}}, ValueSide::kNone, {}, &reached);
  EXPECT_FALSE(source.MayChange(0, kWindows / 2));
  EXPECT_TRUE(source.MayChange(kWindows / 2, 1));
  EXPECT_FALSE(source.MayChange(kWindows / 2 + 1, kWindows / 2 - 1));
  EXPECT_TRUE(source.MayChange(0, kWindows));
}

// Changes in the last window only; looking anywhere else is an error.
class LastWindowSource final : public ChangeSource {
 public:
  explicit LastWindowSource(uint64_t element_count)
      : changes_(2, element_count, {{element_count - 1, 0, 1}}, /*has_values=*/false) {}
  uint32_t unit_bytes() const override { return 2; }
  uint64_t element_count() const override { return changes_.element_count(); }
  bool has_values() const override { return false; }
  bool MayChange(uint64_t first_window, uint64_t window_count) const override {
    return first_window + window_count == WindowCountOf(element_count());
  }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const override {
    EXPECT_TRUE(MayChange(first_window, window_count)) << first_window;
    return changes_.Open(first_window, window_count);
  }

 private:
  ListSource changes_;
};

TEST(ReachedElements, EncodersLookOnlyWhereSomethingMayChange) {
  const LastWindowSource source(uint64_t{64} << 20);
  const SegmentMap map = OneTensorMap(2, source.element_count());
  for (const Codec* codec : AllCodecs()) {
    const EncodedSegment segment = codec->Encode(map, {{1}}, source, {.threads = 1}).value();
    EXPECT_EQ(segment.change_count, 1U) << codec->name();
  }
}

}  // namespace
}  // namespace xorbit
