// A stream in a store: one run's line of versions. Publishing: payloads, receipts, a sealed manifest, and the record that
// decides. Reading: records, the newest version, edges, manifests that fit their versions. docs/design/publishing.md says why
// two trainers, a dead one's late writes and lost replies cannot give a version two contents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "payload/payload_writer.h"
#include "store/edge.h"
#include "store/receipt.h"
#include "store/stream_info.h"
#include "store/version_record.h"
#include "tensor/layout.h"
#include "transport/object_store.h"

namespace xorbit {

// Thread-safe; several processes may work on one stream at once. The store must outlive it. Objects never change, so what was
// read and verified once is remembered. Movable.
class Stream {
 public:
  // Writes layout, stream.json and the record of version 0, in this order; success too if all that is there already. kExists
  // if the store has another stream of this id. `layout` must be the one that `info` names.
  static Result<Stream> Create(ObjectStore& store, const StreamInfo& info, const Layout& layout);
  // kNotFound. With the id "" the only stream of the store: kUsage, naming them, if there are several. A stream whose creation
  // was interrupted before version 0 is not found.
  static Result<Stream> Open(ObjectStore& store, std::string_view stream_id);

  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  const StreamInfo& info() const;
  const Layout& layout() const;
  ObjectStore& store() const;

  // The decision on a version; nothing while there is none. What it returns is durable and final.
  Result<std::optional<VersionRecord>> Record(uint64_t version);
  // The newest committed version, and the first version on which nothing is decided. Decided versions are 0 ... NextFree() - 1.
  Result<uint64_t> Newest();
  Result<uint64_t> NextFree();

  // --- publishing ---
  // Create-only, durable. The payload's key holds its hash, so that a retry is harmless and nothing else can be there.
  Status PutPayload(const PublicationPlace& place, const Payload& payload);
  // Create-only, after the payload. kExists if this owner gave another receipt to this publication.
  Status PutReceipt(const Receipt& receipt);
  // The receipts that are there, by owner index.
  Result<std::vector<Receipt>> Receipts(const PublicationPlace& place);
  // Seals a publication: kNotFound, naming the ranks, while receipts are missing; kRefused if they do not belong together:
  // other owner counts, payloads that are not there, elements that nobody or two owners hold, witnesses that disagree, bases
  // that do not add up to the state of base_version, a target other than the one decided. The manifest is then in the store for
  // good. Any rank may seal, several may: they write the same bytes.
  Result<Manifest> Seal(const PublicationPlace& place);
  // Writes a manifest whose payloads are there already; for folds, which one process makes whole.
  Status PutManifest(const Manifest& manifest);
  // Decides a version, and returns what was decided, whoever was first: compare it with `record`. Before it writes a commit it
  // proves that the manifest is there, fits both ends and names payloads that are there; and that all versions before it are
  // decided. kRefused otherwise.
  Result<VersionRecord> Decide(const VersionRecord& record);

  // --- reading ---
  // The deltas between committed versions from `lowest` to `highest`, both included; manifests that do not fit their versions
  // (of publications that lost) are left out. Sorted by to, from, key.
  Result<std::vector<Edge>> Edges(uint64_t lowest, uint64_t highest);
  // The delta that decided a version, from its parent. kNotFound if it was removed.
  Result<Edge> StepEdge(uint64_t version);
  // The cheapest way between two committed versions, empty if they are one: within max(1, 2 log2 k) objects where that can be,
  // by bytes. kNotFound if there is none (any more): start from an anchor.
  Result<std::vector<Hop>> Route(uint64_t from, uint64_t to);
  // The edge's manifest, which fits the records of both its versions, and for the deciding edge has the hash that the record
  // names. kNotFound if it was removed meanwhile: plan again.
  Result<Manifest> ReadManifest(const Edge& edge);

 private:
  struct State;
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xorbit
