#include "store/fetch.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/text.h"

namespace xorbit {
namespace {

// More than any codec needs for all elements of a layout, with every table and hash beside them.
uint64_t MostDeltaBytes(const Layout& layout, uint64_t owner_count) {
  constexpr uint64_t kAnyDelta = uint64_t{16} << 20;
  constexpr uint64_t kOwner = uint64_t{64} << 10;
  const uint64_t fixed = kAnyDelta + owner_count * kOwner;
  const auto plain = CheckedMul(layout.total_bytes(), 2);
  return plain ? CheckedAdd(*plain, fixed).value_or(UINT64_MAX) : UINT64_MAX;
}

Status OverLimit(const FetchOptions& options) {
  return RefusedError("this update takes more than the " + std::to_string(options.memory_limit_bytes) +
                      " bytes that may be staged; raise the limit, or follow more closely");
}

// The whole payloads of an edge, or their heads, read once.
Result<Delta> ReadOnce(Stream& stream, const Edge& edge, const FetchOptions& options, bool heads_only) {
  const std::string& stream_id = stream.info().stream_id;
  XORBIT_ASSIGN_OR_RETURN(Manifest manifest, stream.ReadManifest(PlaceOf(edge)));
  const uint64_t most_bytes = MostDeltaBytes(stream.layout(), manifest.owners.size());
  const auto bytes_of = [&](const ManifestOwner& owner) { return heads_only ? owner.head_byte_count : owner.byte_count; };
  uint64_t payload_bytes = 0;
  uint64_t wanted_bytes = 0;
  for (const ManifestOwner& owner : manifest.owners) {
    // Compared one by one, so that the sum cannot wrap.
    if (owner.byte_count > most_bytes - payload_bytes) {
      return CorruptError(edge.manifest_key + ": its payloads are larger than any delta of this model");
    }
    if (owner.head_byte_count > owner.byte_count)
      return CorruptError(edge.manifest_key + ": a head is longer than its payload");
    if (bytes_of(owner) > options.memory_limit_bytes - wanted_bytes) return OverLimit(options);
    payload_bytes += owner.byte_count;
    wanted_bytes += bytes_of(owner);
  }
  std::vector<Buffer> buffers(manifest.owners.size());
  XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, buffers.size(), [&](uint64_t i) -> Status {
    const ManifestOwner& owner = manifest.owners[i];
    const std::string key = PayloadKey(stream_id, PlaceOf(edge), owner);
    // A manifest may say any length; memory is taken for what is there.
    XORBIT_ASSIGN_OR_RETURN(const ObjectInfo object, stream.store().Stat(key));
    if (object.byte_count != owner.byte_count) {
      return CorruptError(key + ": has " + std::to_string(object.byte_count) + " bytes, but the manifest says " +
                          std::to_string(owner.byte_count));
    }
    buffers[i].resize(bytes_of(owner));
    return stream.store().ReadInto(key, 0, buffers[i]);
  }));
  std::vector<PayloadBytes> files;
  for (Buffer& buffer : buffers) files.emplace_back(std::move(buffer));
  const uint64_t manifest_bytes = edge.byte_count - std::min(edge.byte_count, payload_bytes);
  XORBIT_ASSIGN_OR_RETURN(
      Delta delta, OpenDelta(fs::path(edge.manifest_key).parent_path(), std::move(manifest), stream.layout(), std::move(files),
                             OpenOptions{options.threads, /*verify_hashes=*/true, heads_only}));
  delta.total_file_bytes += manifest_bytes;
  return delta;
}

// Whether payloads that were found damaged were copies, which are gone now.
bool DropCopies(Stream& stream, const Edge& edge) {
  const Result<Manifest> manifest = stream.ReadManifest(PlaceOf(edge));
  if (!manifest.ok()) return false;
  bool has_dropped = false;
  for (const ManifestOwner& owner : manifest->owners) {
    has_dropped |= stream.store().DropCopy(PayloadKey(stream.info().stream_id, PlaceOf(edge), owner));
  }
  return has_dropped;
}

Result<Delta> Fetch(Stream& stream, const Edge& edge, const FetchOptions& options, bool heads_only) {
  Result<Delta> delta = ReadOnce(stream, edge, options, heads_only);
  if (delta.status().code() != Code::kCorrupt || !DropCopies(stream, edge)) return delta;
  return ReadOnce(stream, edge, options, heads_only);
}

// All hops' deltas, or an error and those before the hop that it is of.
Status FetchHops(Stream& stream, std::span<const Hop> route, const FetchOptions& options, std::vector<Delta>* deltas) {
  uint64_t total_bytes = 0;
  for (const Hop& hop : route) {
    if (hop.edge.byte_count > options.memory_limit_bytes - total_bytes) return OverLimit(options);
    total_bytes += hop.edge.byte_count;
  }
  FetchOptions left = options;
  for (const Hop& hop : route) {
    XORBIT_ASSIGN_OR_RETURN(Delta delta, FetchDelta(stream, hop.edge, left));
    left.memory_limit_bytes -= std::min(left.memory_limit_bytes, delta.total_file_bytes);
    deltas->push_back(std::move(delta));
  }
  return {};
}

}  // namespace

Result<Delta> FetchDelta(Stream& stream, const Edge& edge, const FetchOptions& options) {
  return Fetch(stream, edge, options, /*heads_only=*/false);
}

Result<Delta> FetchHeads(Stream& stream, const Edge& edge, const FetchOptions& options) {
  return Fetch(stream, edge, options, /*heads_only=*/true);
}

Result<std::vector<Delta>> FetchRoute(Stream& stream, std::span<const Hop> route, const FetchOptions& options) {
  std::vector<Delta> deltas;
  XORBIT_RETURN_IF_ERROR(FetchHops(stream, route, options, &deltas));
  return deltas;
}

Result<FetchedRoute> FetchWay(Stream& stream, uint64_t from, uint64_t to, const FetchOptions& options) {
  std::set<PublicationPlace> avoided;
  Status first_failure;
  for (;;) {
    Result<std::vector<Hop>> route = stream.Route(from, to, avoided);
    if (!route.ok()) {
      const Code code = route.status().code();
      if (!first_failure.ok() && (code == Code::kNotFound || code == Code::kCorrupt)) return first_failure;
      if (code == Code::kNotFound) XORBIT_RETURN_IF_ERROR(stream.FindDamage(from, to));
      return route.status();
    }
    std::vector<Delta> deltas;
    const Status fetched = FetchHops(stream, *route, options, &deltas);
    if (fetched.ok()) return FetchedRoute{std::move(route).value(), std::move(deltas)};
    if (fetched.code() != Code::kNotFound && fetched.code() != Code::kCorrupt) return fetched;
    if (first_failure.ok()) first_failure = fetched;
    avoided.insert(PlaceOf((*route)[deltas.size()].edge));
  }
}

}  // namespace xorbit
