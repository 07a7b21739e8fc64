#include "tensor/safetensors.h"

#include <algorithm>
#include <tuple>

#include "base/json_reader.h"
#include "base/text.h"
#include "tensor/layout.h"

namespace xorbit {
namespace {

// Follows the header's events through the one shape it may have:
//   { "__metadata__": { text: text, ... }, name: { "dtype": text, "shape": [n, ...], "data_offsets": [n, n] }, ... }
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(SafetensorsFile& file) : file_(file) {}

  Status BeginObject() override;
  Status EndObject() override;
  Status BeginArray() override;
  Status EndArray() override;
  Status Key(std::string_view key) override;
  Status String(std::string_view text) override;
  Status Unsigned(uint64_t value) override;
  Status OtherValue() override { return Misplaced(); }

 private:
  enum class Where { kOutside, kFile, kMetadata, kEntry, kShape, kOffsets };
  // Bits of fields_seen_.
  static constexpr uint32_t kDtype = 1;
  static constexpr uint32_t kShapeField = 2;
  static constexpr uint32_t kDataOffsets = 4;

  SafetensorsEntry& entry() { return file_.entries.back(); }
  Status EntryError(std::string_view why) { return CorruptError("tensor " + Quoted(entry().name) + " " + std::string(why)); }
  Status EntryKey(std::string_view key);
  Status EndEntry();
  Status Misplaced();

  SafetensorsFile& file_;
  Where where_ = Where::kOutside;
  std::string key_;  // of the value that comes next, in the file's or the metadata's object
  bool metadata_seen_ = false;
  uint32_t field_ = 0;         // of the value that comes next in an entry
  uint32_t fields_seen_ = 0;   // in this entry
  uint32_t offset_count_ = 0;  // in this entry's data_offsets
  std::vector<uint64_t> shape_;
};

// A value of the wrong type, said in terms of what belongs there.
Status HeaderEvents::Misplaced() {
  switch (where_) {
    case Where::kOutside:
      return CorruptError("the header must be a JSON object");
    case Where::kFile:
      if (key_ == kSafetensorsMetadataKey) return CorruptError("__metadata__ must be an object of strings");
      return CorruptError("tensor " + Quoted(key_) + " must be an object of dtype, shape and data_offsets");
    case Where::kMetadata:
      return CorruptError("__metadata__ must hold only strings, but " + Quoted(key_) + " is something else");
    case Where::kEntry:
      if (field_ == kDtype) return EntryError("must have a string as dtype");
      return EntryError(field_ == kShapeField ? "must have an array as shape" : "must have an array as data_offsets");
    case Where::kShape:
      return EntryError("has something else than non-negative 64-bit integers in its shape");
    case Where::kOffsets:
      return EntryError("has something else than two non-negative 64-bit integers as data_offsets");
  }
  return {};
}

Status HeaderEvents::BeginObject() {
  if (where_ == Where::kOutside) {
    where_ = Where::kFile;
    return {};
  }
  if (where_ != Where::kFile) return Misplaced();
  if (key_ == kSafetensorsMetadataKey) {
    where_ = Where::kMetadata;
    return {};
  }
  where_ = Where::kEntry;
  file_.entries.emplace_back().name = key_;
  fields_seen_ = 0;
  offset_count_ = 0;
  shape_.clear();
  return {};
}

Status HeaderEvents::EndObject() {
  if (where_ == Where::kEntry) XORBIT_RETURN_IF_ERROR(EndEntry());
  where_ = where_ == Where::kFile ? Where::kOutside : Where::kFile;
  return {};
}

Status HeaderEvents::EndEntry() {
  if ((fields_seen_ & kDtype) == 0) return EntryError("has no dtype");
  if ((fields_seen_ & kShapeField) == 0) return EntryError("has no shape");
  if ((fields_seen_ & kDataOffsets) == 0) return EntryError("has no data_offsets");
  entry().shape.assign(shape_.begin(), shape_.end());  // of the exact size: there may be millions
  return {};
}

Status HeaderEvents::BeginArray() {
  if (where_ != Where::kEntry || field_ == kDtype) return Misplaced();
  where_ = field_ == kShapeField ? Where::kShape : Where::kOffsets;
  return {};
}

Status HeaderEvents::EndArray() {
  if (where_ == Where::kOffsets && offset_count_ != 2) return Misplaced();
  where_ = Where::kEntry;
  return {};
}

Status HeaderEvents::Key(std::string_view key) {
  if (where_ == Where::kEntry) return EntryKey(key);
  key_ = key;
  if (where_ == Where::kFile && key == kSafetensorsMetadataKey) {
    if (metadata_seen_) return CorruptError("__metadata__ is there twice");
    metadata_seen_ = true;
  }
  return {};
}

Status HeaderEvents::EntryKey(std::string_view key) {
  field_ = key == "dtype" ? kDtype : key == "shape" ? kShapeField : key == "data_offsets" ? kDataOffsets : 0;
  if (field_ == 0) return EntryError("has an unknown field " + Quoted(key));
  if ((fields_seen_ & field_) != 0) return EntryError("has its " + std::string(key) + " twice");
  fields_seen_ |= field_;
  return {};
}

Status HeaderEvents::String(std::string_view text) {
  if (where_ == Where::kMetadata) {
    if (file_.metadata.size() == kSafetensorsMaxMetadataEntries)
      return CorruptError("__metadata__ has more than a million entries");
    if (!file_.metadata.emplace(key_, text).second) return CorruptError("__metadata__ has " + Quoted(key_) + " twice");
    return {};
  }
  if (where_ != Where::kEntry || field_ != kDtype) return Misplaced();
  const auto dtype = ParseDtype(text);
  if (!dtype) return UnsupportedError("tensor " + Quoted(entry().name) + " has the unknown dtype " + Quoted(text));
  entry().dtype = *dtype;
  return {};
}

Status HeaderEvents::Unsigned(uint64_t value) {
  if (where_ == Where::kShape) {
    if (shape_.size() == Layout::kMaxRank) return EntryError("has more than 64 dimensions");
    shape_.push_back(value);
    return {};
  }
  if (where_ != Where::kOffsets || offset_count_ == 2) return Misplaced();
  (offset_count_ == 0 ? entry().begin : entry().end) = value;
  ++offset_count_;
  return {};
}

Status RefuseRepeatedNames(const std::vector<SafetensorsEntry>& entries) {
  std::vector<const std::string*> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(&entry.name);
  const auto less = [](const std::string* a, const std::string* b) { return *a < *b; };
  std::sort(names.begin(), names.end(), less);
  const auto equal = [](const std::string* a, const std::string* b) { return *a == *b; };
  const auto twice = std::adjacent_find(names.begin(), names.end(), equal);
  if (twice == names.end()) return {};
  return CorruptError("tensor " + Quoted(**twice) + " is there twice");
}

// Orders the entries by their bytes, proves that they fill [0, data_bytes) exactly, and shifts them to the file's start.
Status PlaceEntries(SafetensorsFile& file, uint64_t data_bytes) {
  std::sort(file.entries.begin(), file.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  const std::string* before = nullptr;
  for (SafetensorsEntry& entry : file.entries) {
    const auto fail = [&](const std::string& why) { return CorruptError("tensor " + Quoted(entry.name) + " " + why); };
    if (entry.end < entry.begin) return fail("ends before it begins");
    if (entry.end > data_bytes) {
      return fail("reaches " + std::to_string(entry.end - data_bytes) + " bytes past the file's end: is the file whole?");
    }
    if (entry.begin < at) return fail("overlaps tensor " + Quoted(*before));
    if (entry.begin > at) return fail("comes after a hole of " + std::to_string(entry.begin - at) + " bytes");
    const auto needed_bytes = ByteCountOf(entry.dtype, entry.shape);
    if (!needed_bytes.ok()) return fail("is impossible: " + needed_bytes.status().message());
    if (*needed_bytes != entry.end - entry.begin) {
      return fail("has " + std::to_string(entry.end - entry.begin) + " bytes, but its dtype and shape need " +
                  std::to_string(*needed_bytes));
    }
    at = entry.end;
    before = &entry.name;
    entry.begin += file.header_bytes;
    entry.end += file.header_bytes;
  }
  if (at != data_bytes) return CorruptError(std::to_string(data_bytes - at) + " bytes follow the last tensor");
  return {};
}

}  // namespace

uint64_t SafetensorsJsonBytes(ConstBytes file) {
  if (file.size() < sizeof(uint64_t)) return 0;
  const auto json_bytes = LoadLe<uint64_t>(file.data());
  return json_bytes <= kSafetensorsMaxHeaderBytes && json_bytes <= file.size() - sizeof(uint64_t) ? json_bytes : 0;
}

Result<SafetensorsFile> ParseSafetensors(ConstBytes file) {
  ByteReader reader(file);
  XORBIT_ASSIGN_OR_RETURN(const uint64_t json_bytes,
                          reader.ReadLe<uint64_t>("the header's length; this is no safetensors file"));
  if (json_bytes > kSafetensorsMaxHeaderBytes) {
    return CorruptError("a header of " + std::to_string(json_bytes) + " bytes is over the limit of " +
                        std::to_string(kSafetensorsMaxHeaderBytes) + ": this is no safetensors file");
  }
  XORBIT_ASSIGN_OR_RETURN(const ConstBytes json, reader.ReadBytes(json_bytes, "the header does"));
  if (json.empty() || json[0] != '{') return CorruptError("the header does not begin with '{'");
  SafetensorsFile parsed;
  parsed.header_bytes = reader.position();
  HeaderEvents events(parsed);
  constexpr uint32_t kDepth = 4;  // file, entry, shape; one more is refused by the events, which can name the tensor
  XORBIT_RETURN_IF_ERROR(ReadJson(json, kDepth, events).WithContext("safetensors header"));
  XORBIT_RETURN_IF_ERROR(RefuseRepeatedNames(parsed.entries));
  XORBIT_RETURN_IF_ERROR(PlaceEntries(parsed, reader.remaining()));
  return parsed;
}

}  // namespace xorbit
