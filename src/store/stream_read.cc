// The reading side of a stream: which deltas are there, and do they fit the versions that were decided.
#include <algorithm>

#include "base/text.h"
#include "store/checked_text.h"
#include "store/routes.h"
#include "store/stream_state.h"

namespace xorbit {
namespace {

// Above this many version folders one listing of the whole stream is asked for instead.
constexpr uint64_t kMaxListings = 32;
// Folds are aligned: a short route may begin by going back, or end by going on, to where one begins or ends.
constexpr uint64_t kRouteAlignment = 12;

}  // namespace

Result<std::string> Stream::ManifestText(const PublicationPlace& place) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  return GetText(state_->store, ManifestKey(state_->info.stream_id, place), kMaxManifestBytes);
}

// Both ends are committed, and the manifest repeats what their records say.
Status Stream::CheckFit(const Manifest& manifest, std::string_view text) {
  if (!manifest.stream) return RefusedError("the manifest is of a delta made by hand, not of a stream");
  const StreamIdentity& identity = *manifest.stream;
  if (identity.stream_id != state_->info.stream_id || identity.base_fingerprint != state_->info.base_fingerprint) {
    return RefusedError("the manifest is of another stream");
  }
  if (manifest.layout_digest != state_->info.layout_digest || manifest.total_bytes != state_->layout.total_bytes()) {
    return RefusedError("the manifest is for another layout");
  }
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord base, CommittedRecord(identity.base_version));
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord target, CommittedRecord(identity.target_version));
  if (manifest.base != base.target) {
    return RefusedError("the manifest does not start from what version " + std::to_string(base.version) + " is");
  }
  if (manifest.target != target.target) {
    return RefusedError("the manifest does not lead to what version " + std::to_string(target.version) + " is");
  }
  if (target.IsBy(PlaceOf(identity)) && Sha256Of(AsBytes(text)) != target.manifest_sha256) {
    return CorruptError("the manifest is not the one that decided version " + std::to_string(target.version));
  }
  return {};
}

Result<Manifest> Stream::ReadManifest(const PublicationPlace& place) {
  XORBIT_ASSIGN_OR_RETURN(const std::string text, ManifestText(place));
  const std::string key = ManifestKey(state_->info.stream_id, place);
  auto manifest = ParseManifest(text);
  if (!manifest.ok()) return manifest.status().WithContext(key);
  if (manifest->stream && PlaceOf(*manifest->stream) != place) {
    return CorruptError(key + ": the manifest is of another publication");
  }
  XORBIT_RETURN_IF_ERROR(CheckFit(*manifest, text).WithContext(key));
  const std::lock_guard lock(state_->mutex);
  Edge found = {place.base_version, place.target_version, place.publication_id, text.size(), key};
  for (const ManifestOwner& owner : manifest->owners) found.byte_count += owner.byte_count;
  state_->fits[place] = true;
  state_->edges.insert({place, std::move(found)});
  state_->owners.insert({place, manifest->owners});
  return manifest;
}

// Reads a manifest once and remembers whether it fits, but for one that is damaged: it may be whole the next time. Success if
// it could be judged.
Status Stream::JudgePlace(const PublicationPlace& place) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->fits.contains(place)) return {};
  }
  const Result<Manifest> manifest = ReadManifest(place);
  if (manifest.ok() || manifest.status().code() == Code::kNotFound) return {};
  if (manifest.status().code() == Code::kIo) return manifest.status();
  if (manifest.status().code() == Code::kCorrupt) return {};
  const std::lock_guard lock(state_->mutex);
  state_->fits.insert({place, false});
  return {};
}

Status Stream::ReadTombstones() {
  for (;;) {
    uint64_t next = 0;
    {
      const std::lock_guard lock(state_->mutex);
      next = state_->tombstones_read + 1;
    }
    const std::string key = TombstonesKey(state_->info.stream_id, next);
    const Result<std::string> text = GetText(state_->store, key, kMaxTombstoneBytes);
    if (!text.ok()) return text.status().code() == Code::kNotFound ? Status() : text.status();
    const Result<Tombstones> tombstones = ParseTombstones(*text);
    if (!tombstones.ok()) return tombstones.status().WithContext(key);
    if (tombstones->number != next) return CorruptError(key + " has another number than its name");
    XORBIT_RETURN_IF_ERROR(state_->store.Sync(key));
    const std::lock_guard lock(state_->mutex);
    if (state_->tombstones_read + 1 != next) continue;  // by another thread, or forgotten meanwhile
    state_->dead.insert(tombstones->places.begin(), tombstones->places.end());
    state_->dead_anchors.insert(tombstones->anchors.begin(), tombstones->anchors.end());
    state_->tombstones_read = next;
  }
}

Result<uint64_t> Stream::TombstoneCount() {
  XORBIT_RETURN_IF_ERROR(ReadTombstones());
  const std::lock_guard lock(state_->mutex);
  return state_->tombstones_read;
}

Result<bool> Stream::IsDead(const PublicationPlace& place) {
  XORBIT_RETURN_IF_ERROR(ReadTombstones());
  const std::lock_guard lock(state_->mutex);
  return state_->dead.contains(place);
}

Result<bool> Stream::IsDeadAnchor(uint64_t version) {
  XORBIT_RETURN_IF_ERROR(ReadTombstones());
  const std::lock_guard lock(state_->mutex);
  return state_->dead_anchors.contains(version);
}

Result<std::vector<Edge>> Stream::ListEdges(const std::vector<ObjectInfo>& objects, const EdgeBounds& bounds) {
  std::map<PublicationPlace, std::map<std::string, uint64_t>> files;  // sizes by name
  for (const ObjectInfo& object : objects) {
    const auto placed = ParsePlacedKey(state_->info.stream_id, object.key);
    if (!placed || placed->place.publication_id.empty()) continue;
    const auto [base, target, id] = placed->place;
    if (base < bounds.lowest_base || target < bounds.lowest_target || target > bounds.highest_target) continue;
    files[placed->place][std::string(placed->file)] = object.byte_count;
  }
  XORBIT_RETURN_IF_ERROR(ReadTombstones());
  std::vector<Edge> edges;
  for (const auto& [place, sizes] : files) {
    if (!sizes.contains("manifest.json")) continue;
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> target, Record(place.target_version));
    if (!target || !target->committed()) continue;  // undecided: nothing to judge by yet
    XORBIT_RETURN_IF_ERROR(JudgePlace(place));
    const std::lock_guard lock(state_->mutex);
    const auto edge = state_->edges.find(place);
    if (edge == state_->edges.end() || state_->dead.contains(place)) continue;
    const std::vector<ManifestOwner>& owners = state_->owners.at(place);
    const bool whole = std::all_of(owners.begin(), owners.end(), [&sizes = sizes](const ManifestOwner& owner) {
      const auto size = sizes.find(owner.file);
      return size != sizes.end() && size->second == owner.byte_count;
    });
    if (whole) edges.push_back(edge->second);
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.to, a.from, a.publication_id) < std::tie(b.to, b.from, b.publication_id);
  });
  return edges;
}

Result<std::vector<Edge>> Stream::StepEdges(const EdgeBounds& bounds) {
  std::vector<Edge> edges;
  for (uint64_t version = bounds.lowest_target; version <= bounds.highest_target; ++version) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, DecidedRecord(version));
    if (!record.committed() || *record.parent < bounds.lowest_base) continue;
    Result<Edge> edge = StepEdge(version);
    if (edge.ok()) {
      edges.push_back(std::move(edge).value());
    } else if (edge.status().code() != Code::kNotFound) {
      return edge.status();
    }
  }
  return edges;
}

Result<std::vector<Edge>> Stream::Edges(uint64_t lowest, uint64_t highest) {
  if (lowest >= highest) return std::vector<Edge>();
  return FindEdges({lowest, lowest + 1, highest});
}

Result<std::vector<Edge>> Stream::EdgesInto(uint64_t lowest, uint64_t highest) {
  return FindEdges({0, std::max<uint64_t>(lowest, 1), highest});
}

Result<std::vector<Edge>> Stream::FindEdges(EdgeBounds bounds) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, Newest());
  bounds.highest_target = std::min(bounds.highest_target, newest);
  const uint64_t first = bounds.lowest_target;
  const uint64_t last = bounds.highest_target;
  if (first > last) return std::vector<Edge>();
  const std::string& id = state_->info.stream_id;
  std::vector<ObjectInfo> objects;
  const bool one_by_one = last - first < kMaxListings;
  for (uint64_t version = first; version <= (one_by_one ? last : first); ++version) {
    auto listed = state_->store.List(one_by_one ? VersionFolder(id, version) : id + "/v");
    if (!listed.ok() && listed.status().code() == Code::kUnsupported) return StepEdges(bounds);
    if (!listed.ok()) return listed.status();
    std::move(listed->begin(), listed->end(), std::back_inserter(objects));
  }
  return ListEdges(objects, bounds);
}

Result<std::optional<Edge>> Stream::FindEdge(uint64_t from, uint64_t to) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, Edges(from, to));
  const auto found = std::ranges::find_if(edges, [&](const Edge& edge) { return edge.from == from && edge.to == to; });
  return found == edges.end() ? std::optional<Edge>() : std::optional<Edge>(*found);
}

Result<Edge> Stream::StepEdge(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, CommittedRecord(version));
  if (!record.parent) return NotFoundError("version 0 has no parent");
  const PublicationPlace place{*record.parent, version, record.publication_id};
  XORBIT_ASSIGN_OR_RETURN(const bool dead, IsDead(place));
  if (dead) return NotFoundError("the delta that decided version " + std::to_string(version) + " was removed");
  {
    const std::lock_guard lock(state_->mutex);
    const auto edge = state_->edges.find(place);
    if (edge != state_->edges.end()) return edge->second;
  }
  XORBIT_RETURN_IF_ERROR(ReadManifest(place).status());
  const std::lock_guard lock(state_->mutex);
  const auto edge = state_->edges.find(place);
  if (edge != state_->edges.end()) return edge->second;
  return IoError("stream " + Quoted(state_->info.stream_id) + " is being rewritten: try again");
}

// The common case, one step, takes no listing. Otherwise the versions between the two are looked at, and below them as far as a
// trainer that had gone back to an older version continued from there.
Result<std::vector<Hop>> Stream::Route(uint64_t from, uint64_t to, const std::set<PublicationPlace>& avoided) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord source, CommittedRecord(from));
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord target, CommittedRecord(to));
  if (from == to) return std::vector<Hop>();
  Status step_status = NotFoundError("no way leads from version " + std::to_string(from) + " to version " + std::to_string(to) +
                                     " any more: start from an anchor or the base checkpoint");
  if (target.parent == from || source.parent == to) {
    Result<Edge> step = StepEdge(std::max(from, to));
    if (step.ok() && !avoided.contains(PlaceOf(*step))) return std::vector<Hop>{{std::move(step).value(), from > to}};
    if (!step.ok() && step.status().code() != Code::kNotFound && step.status().code() != Code::kCorrupt) return step.status();
    if (step.status().code() == Code::kCorrupt) step_status = step.status();  // unless there is another way
  }
  uint64_t lowest = std::min(from, to);
  const uint64_t highest = std::max(from, to);
  for (uint64_t version = highest; version > lowest; --version) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, DecidedRecord(version));
    if (record.parent) lowest = std::min(lowest, *record.parent);
  }
  lowest = lowest / kRouteAlignment * kRouteAlignment;
  const uint32_t limit = ObjectLimit(highest - std::min(from, to));
  for (const auto& [first, last] : {std::pair(lowest, highest + kRouteAlignment), std::pair(uint64_t{0}, kMaxVersion)}) {
    XORBIT_ASSIGN_OR_RETURN(std::vector<Edge> edges, Edges(first, last));
    std::erase_if(edges, [&](const Edge& edge) { return avoided.contains(PlaceOf(edge)); });
    if (auto route = CheapestRoute(edges, from, to, limit)) return std::move(*route);
    if (auto route = CheapestRoute(edges, from, to)) return std::move(*route);
  }
  return step_status;
}

Status Stream::FindDamage(uint64_t from, uint64_t to) {
  for (uint64_t version = std::min(from, to) + 1; version <= std::max(from, to); ++version) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, DecidedRecord(version));
    if (!record.committed()) continue;
    const PublicationPlace place{*record.parent, version, record.publication_id};
    XORBIT_ASSIGN_OR_RETURN(const bool dead, IsDead(place));
    if (dead) continue;
    const Result<Manifest> manifest = ReadManifest(place);
    const Status status = manifest.ok() ? CheckPayloads(place, manifest->owners) : manifest.status();
    if (status.code() == Code::kIo) return status;
    if (status.ok()) continue;
    return CorruptError("no way leads from version " + std::to_string(from) + " to version " + std::to_string(to) +
                        ", for the delta to version " + std::to_string(version) + " is damaged: " + status.message());
  }
  return {};
}

}  // namespace xorbit
