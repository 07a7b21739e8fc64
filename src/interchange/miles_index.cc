#include "interchange/miles_index.h"

#include <charconv>

#include "base/json.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr uint32_t kIndexDepth = 8;  // the format needs 2; unknown fields may hold a little more
constexpr size_t kVersionDigits = 6;
constexpr std::string_view kFolderPrefix = "weight_v";
constexpr uint64_t kMaxVersion = INT64_MAX;  // other readers keep versions in signed integers
constexpr std::string_view kPayloadSuffix = ".safetensors";

Result<uint64_t> GetVersion(const Json& metadata, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const std::string text, GetString(metadata, key));
  uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version > kMaxVersion) {
    return CorruptError(std::string(key) + " " + Quoted(text) + " is not a version number in decimal digits");
  }
  return version;
}

Result<MilesEncoding> GetEncoding(const Json& metadata) {
  if (!metadata.contains("delta_encoding")) {
    return RefusedError("is a full version, not a delta (no delta_encoding); use the folder as a checkpoint");
  }
  XORBIT_ASSIGN_OR_RETURN(const std::string name, GetString(metadata, "delta_encoding"));
  if (name == "xor") return MilesEncoding::kXor;
  if (name == "overwrite") return MilesEncoding::kOverwrite;
  return UnsupportedError("delta_encoding " + Quoted(name) + " is unknown; xor and overwrite are read");
}

Status CheckPayloadName(std::string_view name) {
  const bool plain = name.size() > kPayloadSuffix.size() && name.ends_with(kPayloadSuffix) && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  if (plain) return {};
  return CorruptError("weight_map leads to " + Quoted(name) + ", which is not the name of a .safetensors file in the folder");
}

// Takes the entries of weight_map one by one, and keeps the first error for when it is known that this is a delta at all.
class MapReader {
 public:
  Status Take(const std::string& name, const Json& value) {
    if (!status_.ok()) return {};
    auto file = AsString(value, "weight_map's file of " + Quoted(name));
    status_ = file.ok() ? CheckPayloadName(*file) : file.status();
    if (status_.ok() && !map_.emplace(name, std::move(file).value()).second) {
      status_ = CorruptError("weight_map has " + Quoted(name) + " twice");
    }
    return {};
  }
  Result<std::map<std::string, std::string>> Finish() {
    XORBIT_RETURN_IF_ERROR(status_);
    return std::move(map_);
  }

 private:
  Status status_;
  std::map<std::string, std::string> map_;
};

JsonShape IndexShape(MapReader* map) {
  JsonShape file;
  file.take = [map](const std::string& name, const Json& value) { return map->Take(name, value); };
  JsonShape metadata;
  metadata.fields = {
      {"version", {}}, {"base_version", {}}, {"delta_encoding", {}}, {"compression_format", {}}, {"checksum_format", {}}};
  JsonShape index;
  index.fields = {{"metadata", std::move(metadata)}, {"weight_map", JsonShape::Each(std::move(file), UINT64_MAX)}};
  return index;
}

Result<MilesIndex> ReadFields(const Json& root, MapReader* map) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(root, "the index"));
  if (!root.contains("metadata")) {
    return RefusedError("is a full version, not a delta (no metadata); use the folder as a checkpoint");
  }
  MilesIndex index;
  XORBIT_ASSIGN_OR_RETURN(const Json* metadata, GetObject(root, "metadata"));
  XORBIT_ASSIGN_OR_RETURN(index.encoding, GetEncoding(*metadata));
  XORBIT_ASSIGN_OR_RETURN(const std::string compression, GetString(*metadata, "compression_format"));
  if (compression != "zstd") return UnsupportedError("compression_format " + Quoted(compression) + " is unknown; zstd is read");
  XORBIT_ASSIGN_OR_RETURN(const std::string checksum, GetString(*metadata, "checksum_format"));
  XORBIT_ASSIGN_OR_RETURN(index.checksum_format, ParseChecksumFormat(checksum));
  XORBIT_ASSIGN_OR_RETURN(index.version, GetVersion(*metadata, "version"));
  XORBIT_ASSIGN_OR_RETURN(index.base_version, GetVersion(*metadata, "base_version"));
  XORBIT_RETURN_IF_ERROR(GetObject(root, "weight_map").status());
  XORBIT_ASSIGN_OR_RETURN(index.weight_map, map->Finish());
  return index;
}

}  // namespace

Result<MilesIndex> ParseMilesIndex(std::string_view json) {
  if (json.size() > kMilesMaxIndexBytes) return CorruptError("is longer than an index may be");
  MapReader map;
  XORBIT_ASSIGN_OR_RETURN(const Json root, ParseJson(json, IndexShape(&map), kIndexDepth));
  return ReadFields(root, &map);
}

std::string WriteMilesIndex(const MilesIndex& index) {
  OrderedJson metadata;
  metadata["version"] = ZeroPadded(index.version, kVersionDigits);
  metadata["base_version"] = ZeroPadded(index.base_version, kVersionDigits);
  metadata["delta_encoding"] = index.encoding == MilesEncoding::kXor ? "xor" : "overwrite";
  metadata["compression_format"] = "zstd";
  metadata["checksum_format"] = NameOf(index.checksum_format);
  OrderedJson weight_map = OrderedJson::object();
  // Straight into the vector that holds the fields: by key, each insertion would search all earlier ones.
  auto& fields = weight_map.get_ref<OrderedJson::object_t&>();
  for (const auto& [name, file] : index.weight_map) fields.emplace_back(name, file);
  OrderedJson root;
  root["metadata"] = std::move(metadata);
  root["weight_map"] = std::move(weight_map);
  return DumpJson(root);
}

std::string MilesFolderName(uint64_t version) { return std::string(kFolderPrefix) + ZeroPadded(version, kVersionDigits); }

std::optional<uint64_t> MilesVersionNamed(std::string_view folder_name) {
  if (!folder_name.starts_with(kFolderPrefix)) return std::nullopt;
  uint64_t version = 0;
  std::from_chars(folder_name.data() + kFolderPrefix.size(), folder_name.data() + folder_name.size(), version);
  if (folder_name != MilesFolderName(version)) return std::nullopt;
  return version;
}

std::string MilesPayloadName(uint64_t file_index, uint64_t file_count) {
  return "model-" + ZeroPadded(file_index, 5) + "-of-" + ZeroPadded(file_count, 5) + std::string(kPayloadSuffix);
}

}  // namespace xorbit
