#include "base/testing/recording_file_ops.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace xorbit {
namespace {

bool Flip(std::mt19937_64& random, double probability) { return std::bernoulli_distribution(probability)(random); }

Buffer MustRead(const fs::path& path) {
  Result<Buffer> bytes = ReadWholeFile(path, std::numeric_limits<uint64_t>::max());
  if (!bytes.ok()) std::abort();
  return std::move(*bytes);
}

void WritePiece(Buffer& file, ConstBytes piece, uint64_t offset) {
  if (file.size() < offset + piece.size()) file.resize(offset + piece.size());
  std::copy(piece.begin(), piece.end(), file.begin() + static_cast<ptrdiff_t>(offset));
}

}  // namespace

RecordingFileOps::RecordingFileOps(fs::path root) : root_(std::move(root)) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    names_[NameOf(entry.path())] = nodes_.size();
    nodes_.push_back({entry.is_directory(), entry.is_directory() ? Buffer() : MustRead(entry.path())});
  }
  durable_names_ = names_;
}

void RecordingFileOps::FailCalls(uint64_t first, uint64_t last) {
  fail_first_ = first;
  fail_last_ = last;
}

void RecordingFileOps::DieAtCall(uint64_t call) {
  FailCalls(call, kNever);
  dies_ = true;
}

Status RecordingFileOps::Count() {
  Status failure = NextCall();
  if (!failure.ok() && dies_) ::kill(::getpid(), SIGKILL);
  return failure;
}

Status RecordingFileOps::NextCall() {
  const uint64_t call = call_count_++;
  if (call >= fail_first_ && call <= fail_last_) return IoError("injected failure of call " + std::to_string(call));
  return {};
}

std::string RecordingFileOps::NameOf(const fs::path& path) const { return path.lexically_relative(root_).string(); }

void RecordingFileOps::RecordName(std::vector<std::pair<std::string, Node>> entries) {
  const std::string folder = fs::path(entries.front().first).parent_path().string();
  for (const auto& [name, node] : entries) {
    if (node == kNoNode) {
      names_.erase(name);
    } else {
      names_[name] = node;
    }
  }
  name_changes_.push_back({std::move(entries), folder, call_count_ - 1});
}

Result<UniqueFd> RecordingFileOps::Create(const fs::path& path, bool exclusive) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, PosixFileOps().Create(path, exclusive));
  const auto found = names_.find(NameOf(path));
  if (found != names_.end()) {
    open_[fd.get()] = found->second;
    data_changes_.push_back({found->second, 0, {}, call_count_ - 1});
    return fd;
  }
  open_[fd.get()] = nodes_.size();
  RecordName({{NameOf(path), nodes_.size()}});
  nodes_.emplace_back();
  return fd;
}

Result<UniqueFd> RecordingFileOps::OpenForWrite(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, PosixFileOps().OpenForWrite(path));
  open_[fd.get()] = names_.at(NameOf(path));
  return fd;
}

Status RecordingFileOps::Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) {
  const std::lock_guard lock(mutex_);
  Status failure = NextCall();
  const bool killed_before = call_count_ - 1 > fail_first_;
  if (!failure.ok()) bytes = bytes.first(killed_before ? 0 : bytes.size() / 2);
  if (!bytes.empty()) {
    data_changes_.push_back({open_.at(fd.get()), offset_bytes, Buffer(bytes.begin(), bytes.end()), call_count_ - 1});
    XORBIT_RETURN_IF_ERROR(PosixFileOps().Pwrite(fd, bytes, offset_bytes));
  }
  if (!failure.ok() && dies_) ::kill(::getpid(), SIGKILL);
  return failure;
}

Status RecordingFileOps::Truncate(const UniqueFd& fd, uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  data_changes_.push_back({open_.at(fd.get()), byte_count, {}, call_count_ - 1});
  return PosixFileOps().Truncate(fd, byte_count);
}

Status RecordingFileOps::CopyContents(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  Buffer bytes(byte_count);
  XORBIT_RETURN_IF_ERROR(ReadAt(source, bytes, 0));
  data_changes_.push_back({open_.at(target.get()), 0, std::move(bytes), call_count_ - 1});
  return PosixFileOps().CopyContents(source, target, byte_count);
}

Status RecordingFileOps::Sync(const UniqueFd& fd) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  for (DataChange& change : data_changes_) {
    if (change.node == open_.at(fd.get())) change.durable_call = std::min(change.durable_call, call_count_ - 1);
  }
  return {};
}

Status RecordingFileOps::SyncFolder(const fs::path& folder) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  const std::string name = folder == root_ ? "" : NameOf(folder);
  for (NameChange& change : name_changes_) {
    if (change.folder == name) change.durable_call = std::min(change.durable_call, call_count_ - 1);
  }
  return {};
}

Status RecordingFileOps::MakeFolder(const fs::path& folder) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_RETURN_IF_ERROR(PosixFileOps().MakeFolder(folder));
  RecordName({{NameOf(folder), nodes_.size()}});
  nodes_.push_back({true, {}});
  return {};
}

Status RecordingFileOps::Rename(const fs::path& from, const fs::path& to) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_RETURN_IF_ERROR(PosixFileOps().Rename(from, to));
  RecordName({{NameOf(from), kNoNode}, {NameOf(to), names_.at(NameOf(from))}});
  return {};
}

Status RecordingFileOps::RenameNoReplace(const fs::path& from, const fs::path& to) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_RETURN_IF_ERROR(PosixFileOps().RenameNoReplace(from, to));
  RecordName({{NameOf(from), kNoNode}, {NameOf(to), names_.at(NameOf(from))}});
  return {};
}

Status RecordingFileOps::Link(const fs::path& from, const fs::path& to) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_RETURN_IF_ERROR(PosixFileOps().Link(from, to));
  RecordName({{NameOf(to), names_.at(NameOf(from))}});
  return {};
}

Status RecordingFileOps::Unlink(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(Count());
  XORBIT_RETURN_IF_ERROR(PosixFileOps().Unlink(path));
  RecordName({{NameOf(path), kNoNode}});
  return {};
}

std::map<std::string, RecordingFileOps::Node> RecordingFileOps::NamesAfter(uint64_t cut, std::mt19937_64& random,
                                                                           double kept) const {
  std::map<std::string, Node> names = durable_names_;
  for (const NameChange& change : name_changes_) {
    if (change.call > cut || (change.durable_call >= cut && !Flip(random, kept))) continue;
    for (const auto& [name, node] : change.entries) {
      if (node == kNoNode) {
        names.erase(name);
      } else {
        names[name] = node;
      }
    }
  }
  // What lies in a folder whose own name was lost is lost with it.
  std::erase_if(names, [&names](const auto& entry) {
    const std::string folder = fs::path(entry.first).parent_path().string();
    return !folder.empty() && !names.contains(folder);
  });
  return names;
}

std::vector<Buffer> RecordingFileOps::BytesAfter(uint64_t cut, std::mt19937_64& random, double kept) const {
  const uint64_t piece_bytes = Flip(random, 0.25) ? 512 : 4096;
  std::vector<Buffer> bytes;
  bytes.reserve(nodes_.size());
  for (const NodeState& node : nodes_) bytes.push_back(node.bytes);
  for (const DataChange& change : data_changes_) {
    if (change.call > cut) continue;
    const bool durable = change.durable_call < cut;
    if (change.bytes.empty() && (durable || Flip(random, kept))) bytes[change.node].resize(change.offset);
    for (uint64_t done = 0; done < change.bytes.size();) {
      const uint64_t at = change.offset + done;
      const uint64_t count = std::min<uint64_t>(piece_bytes - at % piece_bytes, change.bytes.size() - done);
      if (durable || Flip(random, kept)) WritePiece(bytes[change.node], ConstBytes(change.bytes).subspan(done, count), at);
      done += count;
    }
  }
  return bytes;
}

void RecordingFileOps::BuildAfterPowerCut(uint64_t cut, std::mt19937_64& random, const fs::path& folder) const {
  // Cuts that lose nearly everything or nearly nothing are as telling as an even mixture.
  constexpr double kChances[] = {0.0, 0.1, 0.5, 0.9, 1.0};
  const double kept = kChances[std::uniform_int_distribution<size_t>(0, std::size(kChances) - 1)(random)];
  const std::map<std::string, Node> names = NamesAfter(cut, random, kept);
  const std::vector<Buffer> bytes = BytesAfter(cut, random, kept);
  fs::create_directory(folder);
  for (const auto& [name, node] : names) {  // in this order a folder comes before what it holds
    if (nodes_[node].is_folder) {
      fs::create_directory(folder / name);
      continue;
    }
    const Result<UniqueFd> fd = PosixFileOps().Create(folder / name, /*exclusive=*/true);
    if (!fd.ok() || !PosixFileOps().Pwrite(*fd, bytes[node], 0).ok()) std::abort();
  }
}

}  // namespace xorbit
