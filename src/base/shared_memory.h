// POSIX shared memory: bytes that several processes have mapped, found by a name, and that outlive each of them until somebody
// removes the name and the last one has ended.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"

namespace xorbit {

// A mapping of all of a segment. Movable, not copyable. Ending it leaves the segment there.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // All zero, and nobody else's: mode 0600. A name is a slash and up to 250 bytes without one. kExists if it is taken; kIo if
  // there is not enough memory: all of it is set aside here, so that no later store can fail.
  static Result<SharedMemory> Create(const std::string& name, uint64_t byte_count);
  // The one that is there, for reading and writing. kNotFound if it is gone, kRefused if this user may not write it.
  static Result<SharedMemory> Open(const std::string& name);
  // Success also if there is none.
  static Status Remove(const std::string& name);

  MutableBytes bytes() const { return bytes_; }
  // Equal for one segment, by whatever names it was opened.
  struct Identity {
    uint64_t device = 0;
    uint64_t inode = 0;
    friend auto operator<=>(const Identity&, const Identity&) = default;
  };
  Result<Identity> identity() const;
  // Whether the segment is still as long as what is mapped here. Where somebody has cut it, the kernel ends (SIGBUS) who
  // touches what is gone.
  bool is_whole() const;

  // Tells others that this process lives: they see the lock until it lets go of the segment, however it ends. False if another
  // process has it.
  bool TryLock() const;
  void Unlock() const;
  // The segment for this object alone among all that ask, whatever TryLock says, until its end or that of the process. kRefused
  // if another object, of any process, has it.
  Status TryClaim() const;

 private:
  UniqueFd fd_;
  MutableBytes bytes_;
};

// Has the memory behind mapped bytes ready for stores, which otherwise end the process (SIGBUS) where there is none. kIo if
// there is not enough, or somebody has cut the segment. Success without work before Linux 5.14, which cannot say.
Status MakeRoom(MutableBytes bytes);

}  // namespace xorbit
