#include "receive/testing/planned_change.h"

#include <algorithm>
#include <cstdlib>

namespace xorbit {
namespace {

constexpr uint64_t kHeaderBytes = 123;  // odd on purpose: no alignment is promised

uint8_t RandomByte(std::mt19937_64& random) { return static_cast<uint8_t>(random()); }

// Every element of a stretch that falls to `lane` of `lanes` changes with the given probability.
OwnedPatch PlanPatch(std::mt19937_64& random, PlannedChange& change, OwnedPatch patch, uint32_t element_count, uint32_t lane,
                     uint32_t lanes, double density) {
  Buffer& target = change.target[patch.file_index];
  std::bernoulli_distribution changes(density);
  for (uint32_t i = lane; i < element_count; i += lanes) {
    if (!changes(random)) continue;
    patch.positions.push_back(static_cast<uint16_t>(i));
    const uint64_t at = patch.file_offset + uint64_t{i} * patch.unit_bytes;
    const uint32_t surely = static_cast<uint32_t>(random() % patch.unit_bytes);
    for (uint32_t k = 0; k < patch.unit_bytes; ++k) {
      const uint8_t old = change.base[patch.file_index][at + k];
      const uint8_t mask = k == surely ? static_cast<uint8_t>(1 + random() % 255) : random() % 2 ? 0 : RandomByte(random);
      patch.olds.push_back(old);
      patch.xors.push_back(mask);
      target[at + k] = old ^ mask;
    }
  }
  return patch;
}

}  // namespace

PatchBlock OwnedPatch::View() const {
  PatchBlock block;
  block.file_index = file_index;
  block.unit_bytes = unit_bytes;
  block.file_offset = file_offset;
  block.count = static_cast<uint32_t>(positions.size());
  block.positions = positions.data();
  block.olds = olds.data();
  block.xors = xors.data();
  return block;
}

std::vector<JournalFile> PlannedChange::journal_files() const {
  std::vector<JournalFile> described;
  for (size_t i = 0; i < files.size(); ++i) {
    JournalFile file;
    file.name = files[i].name;
    file.file_bytes = base[i].size();
    file.inode = 1000 + i;
    file.header_bytes = files[i].header_bytes;
    file.header_sha256 = Sha256Of(ConstBytes(base[i]).first(files[i].header_bytes));
    described.push_back(std::move(file));
  }
  return described;
}

void PlannedChange::WriteBaseTo(const fs::path& folder) const {
  for (size_t i = 0; i < files.size(); ++i) {
    const Result<UniqueFd> fd = PosixFileOps().Create(folder / files[i].name, /*exclusive=*/false);
    if (!fd.ok() || !PosixFileOps().Pwrite(*fd, base[i], 0).ok()) std::abort();
  }
}

PlannedChange PlanChange(std::mt19937_64& random, const std::vector<uint64_t>& file_sizes, double density) {
  PlannedChange change;
  for (uint8_t& byte : change.identity.delta_identity) byte = RandomByte(random);
  change.identity.states = {{random(), random()}, {random(), random()}};
  for (const uint64_t file_bytes : file_sizes) {
    const auto file_index = static_cast<uint32_t>(change.files.size());
    change.files.push_back({"model-" + std::to_string(file_index) + ".safetensors", kHeaderBytes});
    Buffer bytes(file_bytes);
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) StoreLe<uint64_t>(bytes.data() + at, random());
    change.base.push_back(bytes);
    change.target.push_back(std::move(bytes));
    for (uint64_t at = kHeaderBytes; at < file_bytes;) {
      OwnedPatch patch;
      patch.file_index = file_index;
      patch.unit_bytes = 1u << random() % 4;
      patch.file_offset = at;
      const auto element_count =
          static_cast<uint32_t>(std::min<uint64_t>((file_bytes - at) / patch.unit_bytes, 1 + random() % kPatchMaxCount));
      const uint32_t lanes = 1 + static_cast<uint32_t>(random() % 3);
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        OwnedPatch planned = PlanPatch(random, change, patch, element_count, lane, lanes, density);
        if (!planned.positions.empty()) change.patches.push_back(std::move(planned));
      }
      at += std::max<uint64_t>(1, uint64_t{element_count} * patch.unit_bytes);
    }
  }
  std::shuffle(change.patches.begin(), change.patches.end(), random);
  return change;
}

FilesAre CompareFiles(const PlannedChange& change, const fs::path& folder) {
  bool is_base = true;
  bool is_target = true;
  for (size_t i = 0; i < change.files.size(); ++i) {
    const Result<Buffer> bytes = ReadWholeFile(folder / change.files[i].name, change.base[i].size());
    if (!bytes.ok()) return FilesAre::kNeither;
    is_base = is_base && *bytes == change.base[i];
    is_target = is_target && *bytes == change.target[i];
  }
  return is_base ? FilesAre::kBase : is_target ? FilesAre::kTarget : FilesAre::kNeither;
}

Status ApplyInPlace(FileOps& ops, const fs::path& checkpoint, const PlannedChange& change, int threads) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(ops, checkpoint, threads));
  XORBIT_RETURN_IF_ERROR(target.Recover(RecoveryDirection::kRedo).status());
  XORBIT_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> writer, target.Begin(change.files, change.identity));
  for (const OwnedPatch& patch : change.patches) XORBIT_RETURN_IF_ERROR(writer->Add(patch.View()));
  return target.Commit(std::move(writer));
}

Result<std::vector<RecoveredChange>> RecoverInPlace(FileOps& ops, const fs::path& checkpoint, RecoveryDirection direction,
                                                    int threads) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(ops, checkpoint, threads));
  return target.Recover(direction);
}

}  // namespace xorbit
