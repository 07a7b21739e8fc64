// What the tests of weight_vNNNNNN folders share: two small states with a delta between them, ways to damage it, and an applier
// that trusts nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "interchange/miles_delta.h"
#include "interchange/miles_writer.h"
#include "tensor/random_model.h"
#include "tensor/safetensors.h"

namespace xorbit {

// Applies the verified changes of a delta to copies of `live`, checking that each old value is what is there.
inline std::vector<Buffer> ApplyTo(const MilesDelta& delta, const std::vector<ConstBytes>& live) {
  std::vector<Buffer> news;
  for (const ConstBytes tensor : live) news.emplace_back(tensor.begin(), tensor.end());
  WindowChanges scratch;
  for (size_t i = 0; i < delta.entries().size(); ++i) {
    const uint32_t tensor_index = delta.entries()[i].tensor_index;
    const Status status = delta.ForEachChange(i, live[tensor_index], &scratch, [&](const TensorChanges& changes) -> Status {
      EXPECT_EQ(changes.tensor_index, tensor_index);
      EXPECT_GE(changes.window->count, 1U);
      for (uint32_t c = 0; c < changes.window->count; ++c) {
        EXPECT_TRUE(c == 0 || changes.window->positions[c - 1] < changes.window->positions[c]);
        const uint64_t at = (changes.first_element + changes.window->positions[c]) * changes.unit_bytes;
        uint8_t* target = news[tensor_index].data() + at;
        const uint64_t value_at = uint64_t{c} * changes.unit_bytes;
        EXPECT_EQ(std::memcmp(target, changes.window->olds.data() + value_at, changes.unit_bytes), 0);
        for (uint32_t b = 0; b < changes.unit_bytes; ++b) target[b] ^= changes.window->xors[value_at + b];
      }
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return news;
}

inline bool SameBytes(const std::vector<Buffer>& a, const std::vector<ConstBytes>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Buffer& x, ConstBytes y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); });
}

inline Layout SmallLayout() {
  return Layout::Make(
             {{"a.weight", Dtype::kBF16, {300, 500}}, {"b.bias", Dtype::kF32, {100}}, {"c.scale", Dtype::kF8E8M0, {64}}})
      .value();
}

// Two states of SmallLayout and a delta between them, in a folder to be damaged.
class MilesFolderTest : public testing::Test {
 protected:
  MilesFolderTest() : layout_(SmallLayout()), random_(7), olds_(random_, layout_), news_(random_, layout_) {
    news_.CopyFrom(olds_);
    news_.Mutate(random_, layout_, 30);
  }

  fs::path Write(const MilesWriteOptions& options = {}) {
    const Result<MilesWriteReport> report =
        WriteMilesFolder(PosixFileOps(), path(), layout_, olds_.bytes(), news_.bytes(), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return path();
  }
  fs::path path() const { return folder_ / "weight_v000001"; }
  fs::path payload_path() const { return path() / MilesPayloadName(0, 1); }

  Status OpenStatus() const { return MilesDelta::Open(path(), layout_).status(); }

  // Puts other text in the index.
  void ReplaceInIndex(std::string_view from, std::string_view to) {
    const Buffer bytes = ReadWholeFile(path() / kMilesIndexFile, 1 << 20).value();
    std::string text(AsText(bytes));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    fs::remove(path() / kMilesIndexFile);
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), path() / kMilesIndexFile, AsBytes(text)).ok());
  }

  // Writes the payload file anew, with header and entries changed by `edit`.
  void EditPayload(const std::function<void(SafetensorsHeaderSpec*, std::vector<Buffer>*)>& edit) {
    const Buffer bytes = ReadWholeFile(payload_path(), 1 << 20).value();
    const SafetensorsFile parsed = ParseSafetensors(bytes).value();
    SafetensorsHeaderSpec header{parsed.entries, parsed.metadata};
    std::vector<Buffer> contents;
    for (const SafetensorsEntry& entry : parsed.entries) {
      contents.emplace_back(bytes.begin() + entry.begin, bytes.begin() + entry.end);
    }
    edit(&header, &contents);
    Buffer out = BuildSafetensorsHeader(header).value();
    for (const Buffer& content : contents) AppendBytes(out, content);
    fs::remove(payload_path());
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), payload_path(), out).ok());
  }

  TemporaryFolder folder_;
  Layout layout_;
  Random random_;
  RandomTensors olds_;
  RandomTensors news_;
};

}  // namespace xorbit
