#include "store/store_keys.h"

#include <charconv>

#include "base/text.h"
#include "payload/json_fields.h"

namespace xorbit {
namespace {

std::string Numbered(std::string_view before, uint64_t number) { return std::string(before) + ZeroPadded(number, 6); }

std::string InStream(std::string_view stream_id, std::string_view rest) {
  return std::string(stream_id) + "/" + std::string(rest);
}

// Takes the part before the next slash off `rest`; nothing if there is no slash.
std::optional<std::string_view> TakePart(std::string_view* rest) {
  const size_t slash = rest->find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view part = rest->substr(0, slash);
  rest->remove_prefix(slash + 1);
  return part;
}

std::optional<uint64_t> ParseNumbered(std::string_view before, std::string_view part) {
  uint64_t number = 0;
  if (!part.starts_with(before)) return std::nullopt;
  const std::string_view digits = part.substr(before.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number > kMaxVersion || Numbered(before, number) != part) return std::nullopt;
  return number;
}

}  // namespace

Status CheckPlace(const PublicationPlace& place) {
  if (place.base_version >= place.target_version || place.target_version > kMaxVersion) {
    return UsageError("a publication must lead from a version to a later one, not from " + std::to_string(place.base_version) +
                      " to " + std::to_string(place.target_version));
  }
  if (!IsSafeId(place.publication_id)) {
    return UsageError("a publication's id must be 1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'");
  }
  return {};
}

std::string StreamInfoKey(std::string_view stream_id) { return InStream(stream_id, "stream.json"); }
std::string HeadKey(std::string_view stream_id) { return InStream(stream_id, "head.json"); }

std::string LayoutKey(std::string_view stream_id, const Sha256Digest& digest) {
  return InStream(stream_id, "layouts/" + ToHex(digest) + ".json");
}

std::string TombstonesKey(std::string_view stream_id, uint64_t number) {
  return InStream(stream_id, Numbered("tombstones/", number) + ".json");
}

std::string VersionFolder(std::string_view stream_id, uint64_t version) {
  return InStream(stream_id, Numbered("v", version) + "/");
}

std::string VersionRecordKey(std::string_view stream_id, uint64_t version) {
  return VersionFolder(stream_id, version) + "version.json";
}

std::string AnchorsFolder(std::string_view stream_id, uint64_t version) { return VersionFolder(stream_id, version) + "full/"; }

std::string PlaceFolder(std::string_view stream_id, const PublicationPlace& place) {
  return VersionFolder(stream_id, place.target_version) + Numbered("from_v", place.base_version) + "/" + place.publication_id +
         "/";
}

std::string ManifestKey(std::string_view stream_id, const PublicationPlace& place) {
  return PlaceFolder(stream_id, place) + "manifest.json";
}

std::string ReceiptKey(std::string_view stream_id, const PublicationPlace& place, uint32_t owner_index) {
  return PlaceFolder(stream_id, place) + "receipt-" + ZeroPadded(owner_index, 5) + ".json";
}

std::string PayloadKey(std::string_view stream_id, const PublicationPlace& place, const ManifestOwner& owner) {
  return PlaceFolder(stream_id, place) + owner.file;
}

bool IsPayloadKey(std::string_view key) { return key.ends_with(".xob"); }

std::optional<PlacedKey> ParsePlacedKey(std::string_view stream_id, std::string_view key) {
  std::string_view rest = key;
  if (TakePart(&rest) != stream_id) return std::nullopt;
  const auto version = ParseNumbered("v", TakePart(&rest).value_or(""));
  const auto from = TakePart(&rest);
  if (!version || !from) return std::nullopt;
  if (*from == "full") return PlacedKey{{*version, *version, ""}, rest};
  const auto base = ParseNumbered("from_v", *from);
  const auto id = TakePart(&rest);
  if (!base || !id || rest.find('/') != std::string_view::npos) return std::nullopt;
  PlacedKey placed{{*base, *version, std::string(*id)}, rest};
  if (!CheckPlace(placed.place).ok()) return std::nullopt;
  return placed;
}

std::optional<uint64_t> DecidedBefore(std::string_view stream_id, std::string_view key) {
  if (const auto placed = ParsePlacedKey(stream_id, key)) {
    const bool is_late = placed->place.publication_id.empty() || placed->place.publication_id == kFoldPublicationId;
    return is_late ? placed->place.target_version : placed->place.base_version;
  }
  std::string_view rest = key;
  if (TakePart(&rest) != stream_id) return std::nullopt;
  const auto version = ParseNumbered("v", TakePart(&rest).value_or(""));
  return version && key == VersionRecordKey(stream_id, *version) ? version : std::nullopt;
}

}  // namespace xorbit
