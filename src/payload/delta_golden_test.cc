// Golden deltas: a good one and broken ones, as files in tests/golden/delta. Made anew from nothing, they must come out the
// same byte for byte: that holds the format still, on every machine. Each broken one must be refused with the line in its
// expected-error.txt.
//
// After a deliberate change of the format (before its first release only):
//   XORBIT_WRITE_GOLDEN=1 build/dev/src/payload/payload_test --gtest_filter='DeltaGolden.*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/checksum_field.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "change/list_source.h"
#include "payload/delta_folder.h"
#include "payload/payload_format.h"
#include "payload/payload_test_util.h"

namespace xorbit {
namespace {

using namespace testing_payload;  // NOLINT(google-build-using-namespace): helpers made for these tests

const fs::path kGolden = XORBIT_GOLDEN_DELTA_FOLDER;

uint64_t Mask(uint32_t unit_bytes) { return unit_bytes == 8 ? UINT64_MAX : (uint64_t{1} << (8 * unit_bytes)) - 1; }

// The old state: arbitrary, but the same everywhere.
uint64_t OldBits(uint32_t tensor_index, uint64_t element, uint32_t unit_bytes) {
  return SplitMix64((uint64_t{tensor_index} << 32) + element) & Mask(unit_bytes);
}
// Every fifth element or so changes; zero means that it does not.
uint64_t XorBits(uint32_t tensor_index, uint64_t element, uint32_t unit_bytes) {
  const uint64_t random = SplitMix64(~((uint64_t{tensor_index} << 32) + element));
  return random % 5 == 0 ? ((random >> 16) | 1) & Mask(unit_bytes) : 0;
}

std::vector<ElementChange> ChangesOf(const SegmentMap& map) {
  std::vector<ElementChange> changes;
  RunWalker walker(map, 0, map.element_count());
  for (Run run; walker.Next(&run);) {
    for (uint64_t i = 0; i < run.element_count; ++i) {
      const uint64_t element = run.tensor_element + i;
      const uint64_t xor_bits = XorBits(run.tensor_index, element, map.unit_bytes());
      if (xor_bits == 0) continue;
      changes.push_back({run.segment_element + i, OldBits(run.tensor_index, element, map.unit_bytes()), xor_bits});
    }
  }
  return changes;
}

StateDigest OldDigest(const Layout& layout) {
  StateDigest sum;
  for (uint32_t t = 0; t < layout.tensors().size(); ++t) {
    const TensorSpec& tensor = layout.tensors()[t];
    const uint32_t unit_bytes = UnitBytesOf(tensor.dtype);
    for (uint64_t i = 0; i < tensor.unit_count(); ++i) {
      sum += DigestOfElement(TensorKeyOf(tensor.name), unit_bytes, i, OldBits(t, i, unit_bytes));
    }
  }
  return sum;
}

MadeUpDelta GoldenDelta(std::vector<std::vector<SegmentMap>> owners) {
  MadeUpDelta delta{SmallLayout(), {}, {}};
  std::vector<uint64_t> keys;
  for (const TensorSpec& tensor : delta.layout.tensors()) keys.push_back(TensorKeyOf(tensor.name));
  const StateDigest base = OldDigest(delta.layout);
  StateDigest target = base;
  for (uint32_t owner = 0; owner < owners.size(); ++owner) {
    std::vector<EncodedSegment> segments;
    for (const SegmentMap& map : owners[owner]) {
      const ListSource source(map.unit_bytes(), map.element_count(), ChangesOf(map), /*has_values=*/true);
      auto segment = FindCodec(CodecId::kSparse)->Encode(map, keys, source, {});
      EXPECT_TRUE(segment.ok()) << segment.status().message();
      segments.push_back(std::move(segment).value());
    }
    const PayloadInfo info{CodecId::kSparse, owner, static_cast<uint32_t>(owners.size())};
    delta.payloads.push_back(*WritePayload(delta.layout, info, owners[owner], std::move(segments), 1));
    target += delta.payloads.back().change;
  }
  delta.manifest = *SealManifest(delta.layout, delta.payloads, base, target);
  return delta;
}

// Hashes of a payload whose bytes were tampered with, so that only what the test is about is wrong.
void Reseal(MadeUpDelta* delta, size_t owner) {
  Payload& payload = delta->payloads[owner];
  payload.head_sha256 = Sha256Of(payload.head);
  payload.sha256 = Sha256Of(FileBytesOf(payload));
  delta->manifest = *SealManifest(delta->layout, delta->payloads, delta->manifest.base, delta->manifest.target);
}

void EditFile(const fs::path& path, const std::function<void(std::string&)>& edit) {
  auto bytes = ReadWholeFile(path, UINT64_MAX);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  std::string text(AsText(*bytes));
  edit(text);
  std::ofstream(path, std::ios::binary) << text;
}

void Replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

struct BrokenDelta {
  std::string name;
  std::function<void(MadeUpDelta&)> before = [](MadeUpDelta&) {};  // what is written wrongly
  std::function<void(const fs::path&, const Manifest&)> after = [](const fs::path&, const Manifest&) {
  };  // what is broken later
};

std::vector<BrokenDelta> BrokenDeltas() {
  const auto edit_layout = [](const std::function<void(std::string&)>& edit) {
    return [edit](const fs::path& folder, const Manifest& manifest) {
      EditFile(folder / "layouts" / (ToHex(manifest.layout_digest) + ".json"), edit);
    };
  };
  // As whoever knows the format lies.
  const auto forge_layout = [edit_layout](const std::string& from, const std::string& to) {
    return edit_layout([from, to](std::string& text) {
      Replace(text, from, to);
      text = WithChecksum(text.substr(0, text.rfind(R"(,"checksum")")) + "}\n");
    });
  };
  const auto edit_payload = [](const std::function<void(std::string&)>& edit) {
    return [edit](const fs::path& folder, const Manifest& manifest) { EditFile(folder / manifest.owners[1].file, edit); };
  };
  const auto edit_manifest = [](const std::string& from, const std::string& to) {
    return [from, to](const fs::path& folder, const Manifest&) {
      EditFile(folder / "manifest.json", [&](std::string& text) { Replace(text, from, to); });
    };
  };
  const auto nothing_before = [](MadeUpDelta&) {};
  const auto nothing_after = [](const fs::path&, const Manifest&) {};
  return {
      {"flipped-head-byte", nothing_before, edit_payload([](std::string& text) { text[120] ^= 1; })},
      {"flipped-body-byte", nothing_before, edit_payload([](std::string& text) { text.back() ^= 1; })},
      {"truncated-payload", nothing_before, edit_payload([](std::string& text) { text.pop_back(); })},
      {"missing-payload", nothing_before,
       [](const fs::path& folder, const Manifest& manifest) { fs::remove(folder / manifest.owners[1].file); }},
      {"repeated-key", nothing_before, edit_manifest("{", R"({"codec":"sparse",)")},
      {"newer-version", nothing_before, edit_manifest(R"("format_version":1)", R"("format_version":2)")},
      {"critical-field", nothing_before, edit_manifest("{", R"({"wings":2,"critical":["wings"],)")},
      {"path-outside", nothing_before, edit_manifest(R"("file":"owner-00000)", R"("file":"../owner-00000)")},
      {"other-layout", nothing_before, forge_layout("[6,8]", "[8,6]")},
      {"unfrozen", nothing_before, forge_layout(R"("frozen":true)", R"("frozen":false)")},
      {"flipped-mark", nothing_before, edit_layout([](std::string& text) { Replace(text, R"("group":1)", R"("group":0)"); })},
      {"wrong-sum",
       [](MadeUpDelta& delta) {
         delta.manifest.target += StateDigest{1, 0};
       },
       nothing_after},
      {"wrong-chunk-hash",
       [](MadeUpDelta& delta) {
         const size_t chunks = sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord);
         delta.payloads[0].head[chunks + sizeof(ChunkRecord) - 1] ^= 1;
         Reseal(&delta, 0);
       },
       nothing_after},
      {"dirty-padding",
       [](MadeUpDelta& delta) {
         delta.payloads[0].head[sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord) + sizeof(ChunkRecord) + 7] ^= 1;
         Reseal(&delta, 0);
       },
       nothing_after},
      {"owned-twice",
       [](MadeUpDelta& delta) {
         delta =
             GoldenDelta({(*PlanOwners(delta.layout, 2, Split::kColumn))[0], (*PlanOwners(delta.layout, 1, Split::kWhole))[0]});
       },
       nothing_after},
      {"owned-by-nobody",
       [](MadeUpDelta& delta) {
         delta = GoldenDelta({(*PlanOwners(delta.layout, 2, Split::kColumn))[0], {}});
       },
       nothing_after},
  };
}

// Every file below `folder`, by its path in it.
std::vector<std::pair<std::string, std::string>> FilesOf(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto bytes = ReadWholeFile(entry.path(), UINT64_MAX);
    EXPECT_TRUE(bytes.ok());
    files.emplace_back(fs::relative(entry.path(), folder).string(), std::string(AsText(*bytes)));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The error of opening `folder`, with DELTA in place of its path.
std::string OpenErrorOf(const fs::path& folder) {
  const auto delta = OpenDeltaFolder(folder, {});
  if (delta.ok()) return "";
  std::string message = delta.status().message();
  if (const size_t at = message.find(folder.string()); at != std::string::npos)
    message.replace(at, folder.string().size(), "DELTA");
  return message;
}

class DeltaGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    const MadeUpDelta good = GoldenDelta(*PlanOwners(SmallLayout(), 2, Split::kColumn));
    Write(good, "good");
    for (const BrokenDelta& broken : BrokenDeltas()) {
      MadeUpDelta delta = good;
      broken.before(delta);
      Write(delta, broken.name);
      broken.after(made_ / broken.name, delta.manifest);
      std::ofstream(made_ / broken.name / "expected-error.txt") << OpenErrorOf(made_ / broken.name) << "\n";
    }
    if (std::getenv("XORBIT_WRITE_GOLDEN") != nullptr) {
      fs::remove_all(kGolden);
      fs::create_directories(kGolden.parent_path());
      fs::copy(made_.path(), kGolden, fs::copy_options::recursive);
    }
  }

  void Write(const MadeUpDelta& delta, const std::string& name) {
    const Status status = WriteDeltaFolder(PosixFileOps(), made_ / name, delta.layout, delta.manifest, delta.payloads);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  TemporaryFolder made_;
};

TEST_F(DeltaGolden, AreMadeTheSameByteForByte) {
  const auto made = FilesOf(made_.path());
  const auto golden = FilesOf(kGolden);
  ASSERT_EQ(made.size(), golden.size());
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].first, golden[i].first);
    EXPECT_TRUE(made[i].second == golden[i].second) << made[i].first << " differs";
  }
}

TEST_F(DeltaGolden, TheGoodOneDecodesToItsChanges) {
  const auto delta = OpenDeltaFolder(kGolden / "good", {});
  ASSERT_TRUE(delta.ok()) << delta.status().message();
  EXPECT_EQ(delta->manifest.base, OldDigest(delta->layout));
  for (const PayloadView& payload : delta->payloads) {
    for (const PayloadSegment& segment : payload.segments) {
      const auto decoder = FindCodec(payload.info.codec)->Open(segment.map, segment.view);
      ASSERT_TRUE(decoder.ok()) << decoder.status().message();
      std::vector<std::pair<uint64_t, uint64_t>> decoded;
      DecodedRecord record;
      for (uint64_t r = 0; r < (*decoder)->record_count(); ++r) {
        ASSERT_TRUE((*decoder)->Decode(r, &record).ok());
        for (uint64_t i = 0; i < record.count; ++i) {
          uint64_t xor_bits = 0;
          std::memcpy(&xor_bits, record.xors.data() + i * segment.map.unit_bytes(), segment.map.unit_bytes());
          decoded.emplace_back((*decoder)->info(r).first + record.offsets[i], xor_bits);
        }
      }
      std::vector<std::pair<uint64_t, uint64_t>> wanted;
      for (const ElementChange& change : ChangesOf(segment.map)) wanted.emplace_back(change.element, change.xor_bits);
      EXPECT_EQ(decoded, wanted);
    }
  }
}

TEST_F(DeltaGolden, BrokenOnesAreRefusedWithTheirLine) {
  for (const BrokenDelta& broken : BrokenDeltas()) {
    const fs::path folder = kGolden / broken.name;
    std::string expected;
    std::getline(std::ifstream(folder / "expected-error.txt"), expected);
    EXPECT_NE(expected, "") << broken.name;
    EXPECT_EQ(OpenErrorOf(folder), expected) << broken.name;
  }
}

}  // namespace
}  // namespace xorbit
