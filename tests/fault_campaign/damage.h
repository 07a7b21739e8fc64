// Damage to objects where they lie, past every interface: a flipped bit or a missing end, taken back later as by an operator
// who has a copy.
#pragma once

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tensor/random_model.h"

namespace xorbit::fault_campaign {

class Damage {
 public:
  // False if there is nothing to be damaged.
  bool Flip(Random& random, const fs::path& root) {
    return Change(random, root, [&](const UniqueFd& fd, Buffer bytes) {
      const uint64_t at = random() % bytes.size();
      bytes[at] ^= static_cast<uint8_t>(1U << random() % 8);
      return PosixFileOps().Pwrite(fd, ConstBytes(bytes).subspan(at, 1), at);
    });
  }
  bool Cut(Random& random, const fs::path& root) {
    return Change(random, root, [&](const UniqueFd& fd, const Buffer& bytes) {
      return PosixFileOps().Truncate(fd, random() % bytes.size());
    });
  }
  void HealAll() {
    // The latest first: an object may have been damaged twice.
    for (auto object = damaged_.rbegin(); object != damaged_.rend(); ++object) {
      if (!PosixFileOps().Pwrite(object->fd, object->bytes, 0).ok()) std::abort();
    }
    damaged_.clear();
  }

 private:
  struct Damaged {
    UniqueFd fd;  // the object, even if it was removed meanwhile
    Buffer bytes;
  };

  template <typename Harm>
  bool Change(Random& random, const fs::path& root, const Harm& harm) {
    std::vector<fs::path> objects;
    std::error_code vanished;
    for (fs::recursive_directory_iterator at(root, vanished), end; !vanished && at != end; at.increment(vanished)) {
      std::error_code gone;
      if (at->path().filename() == ".tmp") {
        at.disable_recursion_pending();
      } else if (at->is_regular_file(gone)) {
        objects.push_back(at->path());
      }
    }
    if (objects.empty()) return false;
    // Mostly what is in use: names ascend with versions and sessions.
    std::sort(objects.begin(), objects.end());
    const size_t recent = std::min<size_t>(objects.size(), random() % 4 == 0 ? objects.size() : 24);
    const fs::path& path = objects[objects.size() - 1 - random() % recent];
    Result<UniqueFd> fd = PosixFileOps().OpenForWrite(path);
    const Result<Buffer> bytes = ReadWholeFile(path, uint64_t{64} << 20);
    if (!fd.ok() || !bytes.ok() || bytes->empty() || !harm(*fd, *bytes).ok()) return false;
    damaged_.push_back({std::move(fd).value(), *bytes});
    return true;
  }

  std::vector<Damaged> damaged_;
};

}  // namespace xorbit::fault_campaign
