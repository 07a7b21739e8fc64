// A stream in a store: one run's line of versions. Publishing: payloads, receipts, a sealed manifest, and the record that
// decides. Reading: records, the newest version, edges, manifests that fit their versions. docs/design/publishing.md says why
// two trainers, a dead one's late writes and lost replies cannot give a version two contents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "payload/payload_writer.h"
#include "store/edge.h"
#include "store/receipt_set.h"
#include "store/stream_info.h"
#include "store/tombstones.h"
#include "store/version_record.h"
#include "tensor/layout.h"
#include "transport/object_store.h"

namespace xorbit {

struct DecidedTrace;

// Thread-safe; several processes may work on one stream at once. The store must outlive it. Objects never change, so what was
// read and verified once is remembered; an operator who puts back an older copy of the store changes them all the same, which
// RecordAnew and Newest notice. Movable.
class Stream {
 public:
  // Writes layout, stream.json and the record of version 0, in this order; success too if all that is there already. kExists
  // if the store has another stream of this id. `layout` must be the one that `info` names.
  static Result<Stream> Create(ObjectStore& store, const StreamInfo& info, const Layout& layout);
  // The rest of an interrupted creation, for which the description alone is needed. kNotFound if there is none; success too if
  // nothing is left to do. Ids as for Open.
  static Result<Stream> Finish(ObjectStore& store, std::string_view stream_id);
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
  // The decision on a version before one that is decided: kCorrupt if there is none, for versions are decided without gaps.
  Result<VersionRecord> DecidedRecord(uint64_t version);
  // The record of a committed version: kRefused if it is not decided, or was aborted.
  Result<VersionRecord> CommittedRecord(uint64_t version);
  // The committed versions up to `newest`, which is decided.
  Result<std::vector<uint64_t>> CommittedVersions(uint64_t newest);
  // --- a store that was put back, and published into again ---
  // As Record, but read from the store. If it is another one than was remembered, or gone, nothing is remembered any more. kIo
  // also if the stream itself is gone, as where a disk is not mounted.
  Result<std::optional<VersionRecord>> RecordAnew(uint64_t version);
  // For who holds the bytes of a version: whether it is still this state. kRefused, and what to do, if it is another one or
  // none now. CheckHeld goes by the record as it was last read, ProveHeld by the store.
  Status CheckHeld(uint64_t version, const StateDigest& state);
  Status ProveHeld(uint64_t version, const StateDigest& state);

  // The newest committed version, whose record was read by this call, and the first version on which nothing is decided.
  // Decided versions are 0 ... NextFree() - 1.
  Result<uint64_t> Newest();
  Result<uint64_t> NextFree();

  // --- publishing: it lists, so the store must be able to ---
  // Create-only, durable. The payload's key holds its hash, so that a retry is harmless and nothing else can be there.
  Status PutPayload(const PublicationPlace& place, const Payload& payload);
  // Create-only. kRefused unless the payload is there. kExists if this owner gave another receipt to this publication.
  Status PutReceipt(const Receipt& receipt);
  // Seals a publication: kNotFound, saying which, while receipts are missing; kRefused if they do not belong together: other
  // owner counts or codecs, payloads that are not there, elements that nobody or two owners hold, witnesses that disagree,
  // bases that do not add up to the state of base_version, a target other than the one decided. On success the manifest is in
  // the store for good. Any rank may seal, several may: they write the same bytes.
  Result<Manifest> Seal(const PublicationPlace& place);
  // Writes a manifest whose payloads are there already; for folds, which one process makes whole. kRefused if it does not fit
  // the versions that it connects, both committed, or a payload is not there; kExists if the publication has another manifest.
  Status PutManifest(const Manifest& manifest);
  // Decides a version, and returns what was decided, whoever was first: compare it with `record`. kRefused, and nothing is
  // decided by this call, unless the version before it is decided and, for a commit, the parent is not too old (see
  // StreamInfo), and the manifest is there, is the one that the record names, and fits, and its payloads are there. kCorrupt
  // as by CheckFree.
  Result<VersionRecord> Decide(const VersionRecord& record);
  // kCorrupt, saying which, if any object in the store tells that this version, which has no record, or one after it was
  // decided nevertheless. Then its record is lost, and to decide it again could give it other content. Decide asks this too; to
  // ask before payloads are put saves the work.
  Status CheckFree(uint64_t version);
  // Appends to the list of what the stream no longer offers; `tombstones.number` must be the one after TombstoneCount's.
  // kExists if another collector was first: plan again.
  Status PutTombstones(const Tombstones& tombstones);
  Result<uint64_t> TombstoneCount();

  // --- reading ---
  // The deltas between committed versions from `lowest` to `highest`, both included, by target, base, then id. Left out are
  // manifests that do not fit their versions (publications that lost), those whose payloads are not all there, and those that
  // tombstones list. Where the store cannot list: the deltas that decided these versions.
  Result<std::vector<Edge>> Edges(uint64_t lowest, uint64_t highest);
  // The same, of those that lead to versions from `lowest` to `highest` from wherever.
  Result<std::vector<Edge>> EdgesInto(uint64_t lowest, uint64_t highest);
  // The first of these that leads from `from` to `to`, if there is any.
  Result<std::optional<Edge>> FindEdge(uint64_t from, uint64_t to);
  // The delta that decided a committed version above 0, from its parent. kNotFound if it was removed.
  Result<Edge> StepEdge(uint64_t version);
  // The cheapest way between two committed versions, empty if they are one; of at most max(1, 2 log2 k) objects if one such is
  // there. Takes none of the deltas to avoid. kNotFound if there is none (any more): start from an anchor.
  Result<std::vector<Hop>> Route(uint64_t from, uint64_t to, const std::set<PublicationPlace>& avoided = {});
  // Where Route finds no way: kCorrupt, naming it, if a delta that decided one of the versions after one of these up to the
  // other is damaged or missing although nobody gave it up.
  Status FindDamage(uint64_t from, uint64_t to);
  // A publication's manifest: it fits the records of both its versions, and for the deciding one has the hash that the record
  // names. kNotFound if it was removed meanwhile: plan again.
  Result<Manifest> ReadManifest(const PublicationPlace& place);
  // Whether tombstones list the publication, or the anchor.
  Result<bool> IsDead(const PublicationPlace& place);
  Result<bool> IsDeadAnchor(uint64_t version);

 private:
  struct State;
  explicit Stream(std::unique_ptr<State> state);
  static Result<Stream> ReadDescription(ObjectStore& store, std::string_view stream_id);
  Result<std::optional<VersionRecord>> ReadRecord(uint64_t version) const;
  Status CheckPresence() const;
  Status FindDecided();
  Status ReadTombstones();
  Result<std::string> ManifestText(const PublicationPlace& place);
  Status CheckFit(const Manifest& manifest, std::string_view text);
  Status CheckPayloads(const PublicationPlace& place, const std::vector<ManifestOwner>& owners);
  Status JudgePlace(const PublicationPlace& place);
  struct EdgeBounds {
    uint64_t lowest_base;
    uint64_t lowest_target;
    uint64_t highest_target;
  };
  Result<std::vector<Edge>> FindEdges(EdgeBounds bounds);
  Result<std::vector<Edge>> ListEdges(const std::vector<ObjectInfo>& objects, const EdgeBounds& bounds);
  Result<std::vector<Edge>> StepEdges(const EdgeBounds& bounds);
  struct PayloadHead;
  Result<PayloadHead> ReadHead(const PublicationPlace& place, const Receipt& receipt);
  std::string NameOf(const PublicationPlace& place, const WitnessFault& fault, const std::vector<Receipt>& receipts);
  Status ProveReceipts(const PublicationPlace& place, const std::vector<Receipt>& receipts);
  Result<std::vector<Receipt>> ReadReceipts(const PublicationPlace& place);
  Status CheckCommit(const VersionRecord& record);
  Status CheckParent(const VersionRecord& record);
  Result<DecidedTrace> FindTraces();
  std::unique_ptr<State> state_;
};

}  // namespace xorbit
