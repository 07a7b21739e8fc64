#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

Status CheckName(const std::string& name) {
  constexpr size_t kMaxNameBytes = 250;
  const bool is_plain = name.size() > 1 && name.size() <= kMaxNameBytes && name.front() == '/' &&
                        name.find('/', 1) == std::string::npos && name.find('\0') == std::string::npos;
  if (is_plain && name != "/." && name != "/..") return {};
  return UsageError("shared memory has a name like /engine-0, not " + Quoted(name));
}

Result<MutableBytes> Map(const UniqueFd& fd, uint64_t byte_count, const std::string& what) {
  if (byte_count == 0) return RefusedError(what + " is empty: whoever exports it must size it first (ftruncate)");
  void* const mapped = ::mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return ErrnoError("map " + what, errno);
  return MutableBytes(static_cast<uint8_t*>(mapped), byte_count);
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<SharedMemory> SharedMemory::Create(const std::string& name, uint64_t byte_count) {
  XORBIT_RETURN_IF_ERROR(CheckName(name));
  const std::string what = "shared memory " + Quoted(name);
  SharedMemory segment;
  segment.fd_ = UniqueFd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!segment.fd_.valid()) return ErrnoError("create " + what, errno);
  const int error = ::posix_fallocate(segment.fd_.get(), 0, static_cast<off_t>(byte_count));
  Result<MutableBytes> mapped = error == 0 ? Map(segment.fd_, byte_count, what) : ErrnoError("make room for " + what, error);
  if (!mapped.ok()) {
    static_cast<void>(Remove(name));  // the error before says what is wrong
    return mapped.status();
  }
  segment.bytes_ = *mapped;
  return segment;
}

Result<SharedMemory> SharedMemory::Open(const std::string& name) {
  XORBIT_RETURN_IF_ERROR(CheckName(name));
  const std::string what = "shared memory " + Quoted(name);
  SharedMemory segment;
  segment.fd_ = UniqueFd(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!segment.fd_.valid()) {
    if (errno == ENOENT) return NotFoundError(what + " is gone: start the engine that exports it again");
    if (errno == EACCES || errno == EPERM) {
      return RefusedError(what +
                          " may only be read by this user: export it writable (mode 0600) for the user that runs xorbit");
    }
    return ErrnoError("open " + what, errno);
  }
  struct stat info {};
  if (::fstat(segment.fd_.get(), &info) != 0) return ErrnoError("look at " + what, errno);
  XORBIT_ASSIGN_OR_RETURN(segment.bytes_, Map(segment.fd_, static_cast<uint64_t>(info.st_size), what));
  return segment;
}

Status SharedMemory::Remove(const std::string& name) {
  XORBIT_RETURN_IF_ERROR(CheckName(name));
  if (::shm_unlink(name.c_str()) == 0 || errno == ENOENT) return {};
  return ErrnoError("remove shared memory " + Quoted(name), errno);
}

Result<SharedMemory::Identity> SharedMemory::identity() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoError("look at shared memory", errno);
  return Identity{info.st_dev, info.st_ino};
}

bool SharedMemory::is_whole() const {
  struct stat info {};
  return ::fstat(fd_.get(), &info) == 0 && static_cast<uint64_t>(info.st_size) >= bytes_.size();
}

bool SharedMemory::TryLock() const { return ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0; }

void SharedMemory::Unlock() const { static_cast<void>(::flock(fd_.get(), LOCK_UN)); }

// A lock of the open file, of another family than flock: neither is in the other's way.
Status SharedMemory::TryClaim() const {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &whole) == 0) return {};
  if (errno == EAGAIN || errno == EACCES) return RefusedError("another process has claimed this shared memory");
  return ErrnoError("lock shared memory", errno);
}

Status MakeRoom(MutableBytes bytes) {
  if (bytes.empty()) return {};
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / page_bytes * page_bytes;
  if (::madvise(reinterpret_cast<void*>(first), begin + bytes.size() - first, MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EINVAL) return {};  // an older kernel
  return ErrnoError("make room for " + std::to_string(bytes.size()) + " bytes of shared memory", errno);
}

}  // namespace xorbit
