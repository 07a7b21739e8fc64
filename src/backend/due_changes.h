// Changes that a segment's bytes count as having and do not have yet.
//
// Bringing a baseline forward is bound by memory: nearly every change costs a line, read and written. The next diff reads the
// same lines anyway. So decided changes stay encoded, as small as they were sent, and the diff takes each window's in just
// before it compares the window, whose lines are then in a cache (docs/design/publishing.md has the numbers).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "codec/codec.h"

namespace xorbit {

// Thread-safe; keeps its place.
class DueChanges {
 public:
  // What `decoder` decodes is due in `image`: all elements of `map`'s segment, end to end. Map, the decoder's bytes and image
  // must outlive it; nobody else writes the image while it lives, and nobody reads a window of it that was not taken.
  DueChanges(const SegmentMap& map, std::unique_ptr<SegmentDecoder> decoder, MutableBytes image);

  // Takes what is still due, in all windows, on `threads` threads. Errors as for Take().
  Status TakeAll(int threads);

  // One thread's way through the windows.
  class Cursor {
   public:
    // `due` must outlive it.
    explicit Cursor(DueChanges& due) : due_(&due) {}
    // When it returns, the image has the window's changes, whoever took them. Windows ascend from call to call; some may be
    // left out. kCorrupt only for changes that nobody has checked: the window is then of neither state.
    Status Take(uint64_t window_index);

   private:
    // Takes segment elements [first, end).
    Status TakeRange(uint64_t first, uint64_t end);
    // The first change of the loaded record, from next_change_ on, at or after `element`.
    uint64_t ChangeReaching(uint64_t element) const;

    DueChanges* due_;
    uint64_t record_index_ = 0;  // no record before it has changes that are still wanted
    bool is_loaded_ = false;     // whether it is the one decoded below
    RecordInfo info_;
    DecodedRecord record_;
    uint64_t next_change_ = 0;  // of record_
  };

 private:
  // Each window is taken once. Neighbours share a lock, at which threads meet only where their ranges do.
  struct Stretch {
    std::mutex mutex;
    uint64_t taken = 0;  // guarded by mutex: a bit a window
  };

  const SegmentMap* map_;
  std::unique_ptr<SegmentDecoder> decoder_;
  MutableBytes image_;
  std::vector<Stretch> stretches_;
};

}  // namespace xorbit
