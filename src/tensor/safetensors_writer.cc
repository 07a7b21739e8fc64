// The writing half of safetensors.h: the header as the Python package lays it out.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/checked_math.h"
#include "base/text.h"
#include "tensor/layout.h"
#include "tensor/safetensors.h"

namespace xorbit {
namespace {

// Appends `text` as a JSON string: the shortest escapes, and none where JSON needs none, like serde_json.
void AppendJsonString(std::string& out, std::string_view text) {
  static constexpr std::string_view kShort = "\bb\tt\nn\ff\rr\"\"\\\\";  // character, letter, character, letter ...
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && c != '"' && c != '\\') {
      out += c;
      continue;
    }
    size_t at = 0;
    while (at < kShort.size() && kShort[at] != c) at += 2;
    if (at < kShort.size()) {
      out += {'\\', kShort[at + 1]};
    } else {
      out += "\\u" + ToHex(byte, 4);
    }
  }
  out += '"';
}

Status CheckText(std::string_view text, std::string_view what) {
  if (IsValidUtf8(text)) return {};
  return CorruptError(std::string(what) + " " + Quoted(text) + " is not valid UTF-8");
}

void AppendEntry(std::string& json, const SafetensorsEntry& entry, uint64_t begin, uint64_t end) {
  AppendJsonString(json, entry.name);
  json += ":{\"dtype\":\"";
  json += NameOf(entry.dtype);
  json += "\",\"shape\":[";
  for (size_t i = 0; i < entry.shape.size(); ++i) json += (i == 0 ? "" : ",") + std::to_string(entry.shape[i]);
  json += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

Status AppendMetadata(std::string& json, const std::map<std::string, std::string>& metadata) {
  if (metadata.size() > kSafetensorsMaxMetadataEntries) return CorruptError("the metadata has more than a million entries");
  AppendJsonString(json, kSafetensorsMetadataKey);
  json += ":{";
  bool first = true;
  for (const auto& [key, value] : metadata) {
    XORBIT_RETURN_IF_ERROR(CheckText(key, "metadata key"));
    XORBIT_RETURN_IF_ERROR(CheckText(value, "metadata value"));
    if (!std::exchange(first, false)) json += ',';
    AppendJsonString(json, key);
    json += ':';
    AppendJsonString(json, value);
  }
  json += '}';
  return {};
}

Status OverLimit() {
  return CorruptError("the header is over the format's limit of " + std::to_string(kSafetensorsMaxHeaderBytes) +
                      " bytes: write more, smaller files");
}

// The package's order of types, last first.
constexpr std::array kAscending = {
    Dtype::kBool,   Dtype::kF4,     Dtype::kF6E2M3, Dtype::kF6E3M2,     Dtype::kU8,         Dtype::kI8,
    Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E8M0, Dtype::kF8E4M3FNUZ, Dtype::kF8E5M2FNUZ, Dtype::kI16,
    Dtype::kU16,    Dtype::kF16,    Dtype::kBF16,   Dtype::kI32,        Dtype::kU32,        Dtype::kF32,
    Dtype::kC64,    Dtype::kF64,    Dtype::kI64,    Dtype::kU64,
};

size_t RankOf(Dtype dtype) {
  return static_cast<size_t>(std::find(kAscending.begin(), kAscending.end(), dtype) - kAscending.begin());
}

}  // namespace

bool SafetensorsWritesBefore(Dtype a_dtype, std::string_view a_name, Dtype b_dtype, std::string_view b_name) {
  return a_dtype != b_dtype ? RankOf(a_dtype) > RankOf(b_dtype) : a_name < b_name;
}

Result<Buffer> BuildSafetensorsHeader(const SafetensorsHeaderSpec& spec) {
  std::string json = "{";
  if (!spec.metadata.empty()) XORBIT_RETURN_IF_ERROR(AppendMetadata(json, spec.metadata));
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : spec.entries) {
    if (json.size() + entry.name.size() > kSafetensorsMaxHeaderBytes) return OverLimit();
    XORBIT_RETURN_IF_ERROR(CheckText(entry.name, "tensor name"));
    const std::string who = "tensor " + Quoted(entry.name);
    if (entry.name == kSafetensorsMetadataKey) return CorruptError("a tensor may not be named __metadata__");
    if (!names.insert(entry.name).second) return CorruptError(who + " is there twice");
    if (entry.shape.size() > Layout::kMaxRank) return CorruptError(who + " has more than 64 dimensions");
    const auto byte_count = ByteCountOf(entry.dtype, entry.shape);
    if (!byte_count.ok()) return byte_count.status().WithContext(who);
    const auto end = CheckedAdd(at, *byte_count);
    if (!end) return CorruptError("the tensors add up to more than 2^64 bytes");
    if (json.size() > 1) json += ',';
    AppendEntry(json, entry, at, *end);
    at = *end;
  }
  json += '}';
  json.resize(PaddedTo8(json.size()), ' ');
  if (json.size() > kSafetensorsMaxHeaderBytes) return OverLimit();
  Buffer header;
  header.reserve(sizeof(uint64_t) + json.size());
  AppendLe<uint64_t>(header, json.size());
  AppendBytes(header, AsBytes(json));
  return header;
}

}  // namespace xorbit
