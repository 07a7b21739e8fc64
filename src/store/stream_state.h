// What a Stream remembers: objects never change, so whatever was read and verified once holds for good, unless the store itself
// was put back to an older copy. For stream*.cc only.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "store/stream.h"

namespace xorbit {

// An object that tells that a version was decided, though its record may be lost.
struct DecidedTrace {
  uint64_t version = 0;
  std::string key;
};

struct Stream::State {
  ObjectStore& store;
  StreamInfo info;
  Layout layout;

  std::mutex mutex;  // guards what follows; never held while the store is asked
  std::map<uint64_t, VersionRecord> records;
  uint64_t decided_through = 0;                                   // versions up to this one are decided
  std::optional<DecidedTrace> trace;                              // the highest, as listed once; see CheckFree
  std::set<PublicationPlace> dead;                                // listed in tombstones
  std::set<uint64_t> dead_anchors;                                // listed in tombstones
  uint64_t tombstones_read = 0;                                   // number of the last list read
  std::map<PublicationPlace, bool> fits;                          // manifests judged against their versions: true if they fit
  std::map<PublicationPlace, Edge> edges;                         // those that fit
  std::map<PublicationPlace, std::vector<ManifestOwner>> owners;  // of those
  std::set<Sha256Digest> proven_coverage;                         // PartsDigests of all owners in order, hashed together
  uint64_t forgotten_count = 0;  // by it who works without the lock knows that it was forgotten

  State(ObjectStore& s, StreamInfo i, Layout l) : store(s), info(std::move(i)), layout(std::move(l)) {}

  // All that the store may say otherwise by now; coverage is a fact about the parts alone.
  void ForgetLocked() {
    records.clear();
    decided_through = 0;
    trace.reset();
    dead.clear();
    dead_anchors.clear();
    tombstones_read = 0;
    fits.clear();
    edges.clear();
    owners.clear();
    ++forgotten_count;
  }
};

}  // namespace xorbit
