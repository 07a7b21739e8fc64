#include "store/gc.h"

#include <algorithm>
#include <map>
#include <set>

#include "store/anchor.h"
#include "store/checked_text.h"

namespace xorbit {
namespace {

// One publication's or anchor's folder, as listed.
struct Folder {
  std::vector<ObjectInfo> objects;
  int64_t newest_ns = 0;
};
using Folders = std::map<PublicationPlace, Folder>;  // an anchor's place is its version twice, without an id

bool IsSeal(std::string_view file) { return file == "manifest.json" || IsAnchorSeal(file); }

Result<Folders> ListFolders(Stream& stream) {
  const std::string& id = stream.info().stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, stream.store().List(id + "/v"));
  Folders folders;
  for (const ObjectInfo& object : objects) {
    const auto placed = ParsePlacedKey(id, object.key);
    if (!placed) continue;
    Folder& folder = folders[placed->place];
    folder.newest_ns = std::max(folder.newest_ns, object.modified_ns);
    folder.objects.push_back(object);
  }
  return folders;
}

// What seals first, payloads last: a reader who still finds the manifest has a chance to find the rest.
Status RemoveFolder(Stream& stream, const PublicationPlace& place, const Folder& folder, GcReport* report) {
  std::vector<ObjectInfo> objects = folder.objects;
  std::stable_partition(objects.begin(), objects.end(), [&](const ObjectInfo& object) {
    const auto placed = ParsePlacedKey(stream.info().stream_id, object.key);
    return placed && placed->place == place && IsSeal(placed->file);
  });
  for (const ObjectInfo& object : objects) {
    XORBIT_RETURN_IF_ERROR(stream.store().Remove(object.key));
    ++report->removed_object_count;
    report->removed_bytes += object.byte_count;
  }
  return {};
}

// Removes what is listed for longer than the grace.
Status RemoveDead(Stream& stream, const Folders& folders, int64_t grace_ns, GcReport* report) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t count, stream.TombstoneCount());
  XORBIT_ASSIGN_OR_RETURN(const int64_t now_ns, stream.store().NowNs());
  for (uint64_t number = 1; number <= count; ++number) {
    const std::string key = TombstonesKey(stream.info().stream_id, number);
    XORBIT_ASSIGN_OR_RETURN(const ObjectInfo info, stream.store().Stat(key));
    if (now_ns - info.modified_ns < grace_ns) continue;
    XORBIT_ASSIGN_OR_RETURN(const std::string text, GetText(stream.store(), key, kMaxTombstoneBytes));
    XORBIT_ASSIGN_OR_RETURN(Tombstones tombstones, ParseTombstones(text));
    for (const uint64_t version : tombstones.anchors) tombstones.places.push_back({version, version, ""});
    for (const PublicationPlace& place : tombstones.places) {
      const auto folder = folders.find(place);
      if (folder != folders.end()) XORBIT_RETURN_IF_ERROR(RemoveFolder(stream, place, folder->second, report));
    }
  }
  return {};
}

// Whether what is no delta and no anchor now can never be one again: it was never sealed, or it is sealed and lost. Anything
// else is damaged, or was read badly, and may be whole tomorrow: a way that an earlier list kept may depend on it. Version 0
// may still be stored whole by another publish of its checkpoint, and there is no other way for who has nothing.
Result<bool> IsLost(Stream& stream, const PublicationPlace& place, const Folder& folder) {
  const bool is_sealed = std::ranges::any_of(folder.objects, [&](const ObjectInfo& object) {
    const auto placed = ParsePlacedKey(stream.info().stream_id, object.key);
    return placed && IsSeal(placed->file);
  });
  if (!is_sealed) return place.target_version > 0;
  if (place.publication_id.empty() || place.publication_id == kFoldPublicationId) return false;  // these cannot lose
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, stream.Record(place.target_version));
  if (!record || !record->committed()) return record.has_value();
  if (record->IsBy(place)) return false;
  return stream.ReadManifest(place).status().code() == Code::kRefused;
}

// What retention gives up, and what is no delta and no anchor although its version was decided and the grace has passed.
Result<Tombstones> PlanTombstones(Stream& stream, const Folders& folders, const GcOptions& options) {
  Tombstones tombstones;
  // In this order: every list is planned with the lists before it and with at least the versions that these were planned with.
  XORBIT_ASSIGN_OR_RETURN(const uint64_t count, stream.TombstoneCount());
  tombstones.number = count + 1;
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> committed, stream.CommittedVersions(newest));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, stream.Edges(0, newest));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  RetentionPlan plan = PlanRetention(committed, edges, anchors, options.marks, stream.info().resume_window, options.policy);

  std::set<PublicationPlace> useful;
  for (const Edge& edge : edges) useful.insert(PlaceOf(edge));
  for (const uint64_t version : anchors) useful.insert({version, version, ""});
  XORBIT_ASSIGN_OR_RETURN(const int64_t now_ns, stream.store().NowNs());
  for (const auto& [place, folder] : folders) {
    if (useful.contains(place) || place.target_version > newest || now_ns - folder.newest_ns < options.grace_ns) continue;
    XORBIT_ASSIGN_OR_RETURN(const bool is_lost, IsLost(stream, place, folder));
    if (!is_lost) continue;
    if (place.publication_id.empty()) {
      XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(place.target_version));
      if (!dead) plan.anchors.push_back(place.target_version);
    } else {
      XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDead(place));
      if (!dead) plan.places.push_back(place);
    }
  }
  std::sort(plan.places.begin(), plan.places.end());
  std::sort(plan.anchors.begin(), plan.anchors.end());
  tombstones.places = std::move(plan.places);
  tombstones.anchors = std::move(plan.anchors);
  return tombstones;
}

}  // namespace

Result<GcReport> CollectGarbage(Stream& stream, const GcOptions& options) {
  if (options.grace_ns < 0 || options.policy.version_count == 0) return UsageError("gc must keep at least one version");
  GcReport report;
  XORBIT_ASSIGN_OR_RETURN(const Folders folders, ListFolders(stream));
  XORBIT_RETURN_IF_ERROR(RemoveDead(stream, folders, options.grace_ns, &report));
  XORBIT_ASSIGN_OR_RETURN(const Tombstones tombstones, PlanTombstones(stream, folders, options));
  if (tombstones.places.empty() && tombstones.anchors.empty()) return report;
  const Status put = stream.PutTombstones(tombstones);
  if (put.code() == Code::kExists) return report;  // another collector was first; the next run plans with what it listed
  XORBIT_RETURN_IF_ERROR(put);
  report.listed_count = tombstones.places.size() + tombstones.anchors.size();
  return report;
}

}  // namespace xorbit
