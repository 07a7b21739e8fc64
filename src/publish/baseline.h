// What a rank published last: one copy of the weights that it owns, against which it compares the next, and its state digest.
//
// Moving on costs little: the decided payload is kept, and what it changes is due in the copy until somebody reads it, which
// is the next diff as a rule (backend/due_changes.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// One flat image a segment. Movable; one thread at a time.
class Baseline {
 public:
  // Copies the elements of `maps`, which must outlive the baseline, out of whole tensors (a checkpoint).
  static Baseline CopyOf(std::span<const SegmentMap> maps, TensorBytes tensors, int threads);

  // What a diff starts from, with what is due; valid until the baseline moves.
  OldState state() const;
  // D over the elements, if it is known: whoever has diffed or scanned them says so, and it moves along from then on.
  const std::optional<StateDigest>& digest() const { return digest_; }
  void set_digest(const StateDigest& digest) { digest_ = digest; }

  // Takes what is still due, if anything is, and gives its payload up.
  Status TakeDue(int threads);
  // Views of the images, parallel to the maps, valid while the baseline lives; only while nothing is due.
  const std::vector<SegmentBytes>& bytes() const;
  // D over the elements as they are; only while nothing is due.
  StateDigest Scan(const Backend& backend, const Layout& layout, int threads) const;

  // Moves on by a payload file of this baseline's own segments, whose changes are due from here on. Only with a known digest.
  // kCorrupt only for a payload that nobody has checked.
  Status Forward(const Backend& backend, const Layout& layout, Buffer payload, int threads);
  // Takes the changes of any source over segment `index`; the digest is not known after it. XOR is its own inverse, so a failed
  // call is undone by nobody.
  Status Forward(size_t index, const ChangeSource& changes, int threads);

 private:
  struct DuePayload {
    Buffer bytes;
    PayloadView view;
    std::vector<std::unique_ptr<DueChanges>> changes;  // parallel to the maps
  };

  std::span<const SegmentMap> maps_;
  std::vector<Buffer> images_;
  std::vector<SegmentBytes> bytes_;
  std::optional<StateDigest> digest_;
  std::unique_ptr<DuePayload> due_;  // null if nothing is; a fixed place, for it points into itself
};

}  // namespace xorbit
