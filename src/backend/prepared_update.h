// An update that waits beside live memory: everything validated, so that the pause holds nothing but the change itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/kept_memory.h"
#include "backend/serving_throttle.h"
#include "backend/undo_memory.h"
#include "base/span_log.h"
#include "base/status.h"
#include "change/state_digest.h"
#include "codec/codec.h"

namespace xorbit {

// Which way a delta is taken: XOR is its own inverse, so only the digests to expect differ.
enum class Direction { kForward, kInverse };

inline constexpr uint64_t kDefaultLocaliseBytes = uint64_t{32} << 20;

// How a device takes payloads of mask codecs. Host memory looks at none of it.
struct MaskOptions {
  // Who decodes frames: "engine", "kernels" or "cpu"; empty: the first of these that this machine has. Or "nvcomp:FOLDER", with
  // the folder of its library; without a folder where the system looks.
  std::string decoder;
  // Device memory for the masks of one batch, of which slot_count (2 to 4) are used in turn. 0: by what is free.
  uint64_t slot_bytes = 0;
  uint32_t slot_count = 3;
  // Instead of memory of the update's own, in the pause and in Undo: such as what the engine computes in while it serves. Must
  // outlive the update; its contents are lost.
  MutableBytes lent_dev{};
  // The most host memory for inner frames, whose outer Zstd Prepare undoes.
  uint64_t inner_budget_bytes = uint64_t{32} << 30;
  // Where a device has room, they are copied there before the pause, unless this is set: then it reads them over the bus.
  bool keeps_inner_on_host = false;
  // The payload's hash of each inner frame is compared. Without, what undoing the outer Zstd made is proven by pre-flight
  // alone: by its lengths, its number of changes, and its digests.
  bool validates_inner_hashes = true;
  // Where an update finds slots and memory for inner frames that one before it has left, and leaves its own when it ends. Must
  // outlive the update. Null: all of it is made, and given back.
  std::unique_ptr<KeptMemory>* kept = nullptr;
  // Where each pass leaves when a batch was decoded and used, for a trace; must outlive the update. Null: nobody asks, and
  // nothing is measured.
  SpanLog* spans = nullptr;
};

struct PrepareOptions {
  int threads = 1;
  Direction direction = Direction::kForward;
  // Saves the old value of every element that will change, so that Apply, retry and Undo are absolute stores and may be
  // interrupted and repeated at any point.
  bool keep_undo_log = false;
  // For live memory that outlives this process: the undo log is kept there, with `undo_versions`, so that another process can
  // take back by Backend::RollBack what this one did not finish. Its record must not be armed, no other update that is still to
  // be used may be kept in it, and it outlives the update. Implies keep_undo_log. Host memory only.
  UndoMemory* undo_memory = nullptr;
  UndoVersions undo_versions{};  // `after` is filled in
  // This memory holds only part of the elements that count. A record's digests are then sums over several ranks: nobody can
  // compare them alone, and `sums` is what the cohort has to add up.
  bool partial = false;
  // The payloads are portions of a delta's (payload/portions.h), so what can only be judged over all of it is not: whether tied
  // weights change alike, and the digests of each payload's whole change.
  bool is_portion = false;
  // Keeps the changes in live coordinates if they take no more than this, so that decoding and map search leave the pause. 0:
  // never. On a device only whether it is 0: dense changes may take half of the memory that is free there.
  uint64_t localise_budget_bytes = kDefaultLocaliseBytes;
  // How hard Prepare may work while the engine serves. On a device only.
  ServingThrottle throttle = {};
  MaskOptions masks{};
};

// Lane 0 over the counted elements of one record that this memory holds, before and after in the direction taken.
struct RecordSums {
  uint64_t before = 0;
  uint64_t after = 0;
  RecordSums& operator+=(const RecordSums& other) {
    before += other.before;
    after += other.after;
    return *this;
  }
  friend bool operator==(const RecordSums&, const RecordSums&) = default;
};

// What a record with digests must show when its delta is taken in this direction.
inline RecordSums StatedSums(const RecordInfo& info, Direction direction) {
  return direction == Direction::kForward ? RecordSums{info.before, info.after} : RecordSums{info.after, info.before};
}

struct PrepareReport {
  uint64_t change_count = 0;        // in the payloads
  uint64_t local_change_count = 0;  // elements that Apply writes here; every copy counts
  uint64_t record_count = 0;
  uint64_t staged_bytes = 0;                  // kept for Apply beside the payloads
  std::vector<std::vector<RecordSums>> sums;  // per payload, per record in segment order; only if partial
  StateDigest change;                         // after - before over the counted elements, both lanes
  std::vector<uint32_t> derived;  // of the map's derived bindings, those whose tensors change (or may): to be run after Apply
};

// Belongs to one live memory in one epoch, which outlives it, as do the payloads. One thread at a time; nobody else may write
// to live memory between Prepare and the end of the last call.
class PreparedUpdate {
 public:
  PreparedUpdate() = default;
  PreparedUpdate(const PreparedUpdate&) = delete;
  PreparedUpdate& operator=(const PreparedUpdate&) = delete;
  virtual ~PreparedUpdate() = default;

  virtual const PrepareReport& report() const = 0;

  // In the pause: every change goes into live memory, checked against the values that Prepare saw. kRefused: another epoch, or
  // live bytes that somebody changed meanwhile. After any error live memory is as it was and Apply may be tried again, unless
  // is_lost(). Applied already: with an undo log a success that changes nothing, otherwise kUsage.
  virtual Status Apply() = 0;

  // Takes the change back, in the same epoch; success too if it was never applied. Without an undo log it XORs, so it must not
  // be called after an Apply or Undo that did not return.
  virtual Status Undo() = 0;

  // After an Apply or Undo that failed: nobody knows what live memory holds, such as when a device has failed under it.
  virtual bool is_lost() const { return false; }

  // What Apply did is final: undo memory says from now on that live memory holds the new version. Nothing may be called after
  // it. Without undo memory it does nothing.
  virtual void Settle() {}
};

}  // namespace xorbit
