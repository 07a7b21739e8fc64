#include "interchange/miles_writer.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/staged_folder.h"
#include "base/text.h"
#include "codec/zstd_stream.h"
#include "tensor/ownership.h"
#include "tensor/safetensors.h"

namespace xorbit {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;

struct Tensors {
  std::span<const ConstBytes> olds;
  std::span<const ConstBytes> news;
};

struct EncodedTensor {
  Buffer frame;
  std::string checksum;
};

// Calls visit(position, old piece, new piece) from the front to the back of a tensor.
template <typename Visit>
Status ForEachPiece(ConstBytes old_bytes, ConstBytes new_bytes, Visit&& visit) {
  for (uint64_t at = 0; at < new_bytes.size(); at += kPieceBytes) {
    const uint64_t count = std::min<uint64_t>(kPieceBytes, new_bytes.size() - at);
    XORBIT_RETURN_IF_ERROR(visit(at, old_bytes.subspan(at, count), new_bytes.subspan(at, count)));
  }
  return {};
}

std::string ChecksumOf(ChecksumFormat format, ConstBytes bytes) {
  WeightChecksum checksum(format);
  checksum.Update(bytes);
  return checksum.Text();
}

Result<EncodedTensor> EncodeXor(ConstBytes old_bytes, ConstBytes new_bytes, const MilesWriteOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(ZstdFrameWriter writer, ZstdFrameWriter::Make(options.zstd_level, new_bytes.size()));
  WeightChecksum checksum(options.checksum_format);
  Buffer mask;
  XORBIT_RETURN_IF_ERROR(ForEachPiece(old_bytes, new_bytes, [&](uint64_t, ConstBytes olds, ConstBytes news) {
    mask.resize(news.size());
    for (size_t i = 0; i < news.size(); ++i) mask[i] = olds[i] ^ news[i];
    checksum.Update(news);
    return writer.Write(mask);
  }));
  XORBIT_ASSIGN_OR_RETURN(Buffer frame, writer.Finish());
  return EncodedTensor{std::move(frame), checksum.Text()};
}

// The content is count, positions, values, one after the other, and is as long as eighty bits a change: it is made in three
// walks over the tensor rather than held.
Result<EncodedTensor> EncodeOverwrite(ConstBytes old_bytes, ConstBytes new_bytes, const MilesWriteOptions& options) {
  uint64_t count = 0;
  for (size_t i = 0; i < new_bytes.size(); ++i) count += old_bytes[i] != new_bytes[i] ? 1 : 0;
  constexpr uint64_t kBytesPerChange = sizeof(uint32_t) + 1;
  XORBIT_ASSIGN_OR_RETURN(ZstdFrameWriter writer,
                          ZstdFrameWriter::Make(options.zstd_level, sizeof(uint32_t) + count * kBytesPerChange));
  Buffer out;
  AppendLe(out, static_cast<uint32_t>(count));
  XORBIT_RETURN_IF_ERROR(writer.Write(out));
  XORBIT_RETURN_IF_ERROR(ForEachPiece(old_bytes, new_bytes, [&](uint64_t at, ConstBytes olds, ConstBytes news) {
    out.clear();
    for (size_t i = 0; i < news.size(); ++i) {
      if (olds[i] != news[i]) AppendLe(out, static_cast<uint32_t>(at + i));
    }
    return writer.Write(out);
  }));
  XORBIT_RETURN_IF_ERROR(ForEachPiece(old_bytes, new_bytes, [&](uint64_t, ConstBytes olds, ConstBytes news) {
    out.clear();
    for (size_t i = 0; i < news.size(); ++i) {
      if (olds[i] != news[i]) out.push_back(news[i]);
    }
    return writer.Write(out);
  }));
  XORBIT_ASSIGN_OR_RETURN(Buffer frame, writer.Finish());
  return EncodedTensor{std::move(frame), ChecksumOf(options.checksum_format, new_bytes)};
}

// Lets threads append to one file in the order of their items, whichever finishes first. An item waits for all earlier ones,
// which ParallelFor has handed out before; so somebody can always go on.
class OrderedAppender {
 public:
  OrderedAppender(FileOps& ops, const UniqueFd& fd, uint64_t start) : ops_(ops), fd_(fd), start_(start), at_(start) {}

  // Returns the first error of this or any other item: then nobody waits any more.
  Status Append(uint64_t item, ConstBytes bytes) {
    std::unique_lock lock(mutex_);
    turned_.wait(lock, [&] { return next_item_ == item || !error_.ok(); });
    if (!error_.ok()) return error_;
    error_ = ops_.Pwrite(fd_, bytes, at_);
    at_ += bytes.size();
    ++next_item_;
    turned_.notify_all();
    return error_;
  }
  Status Fail(Status error) {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = std::move(error);
    turned_.notify_all();
    return error_;
  }
  uint64_t appended_bytes() const { return at_ - start_; }  // after the threads have been joined

 private:
  FileOps& ops_;
  const UniqueFd& fd_;
  const uint64_t start_;
  std::mutex mutex_;
  std::condition_variable turned_;
  uint64_t at_;             // guarded by mutex_
  uint64_t next_item_ = 0;  // guarded by mutex_
  Status error_;            // guarded by mutex_
};

// Writes the payload file of one owner. Entries stream to the disk before their lengths, and so the header, are known; the
// header therefore gets the room that it needs at most, and its JSON ends in spaces.
class PayloadFile {
 public:
  PayloadFile(FileOps& ops, const Layout& layout, const Tensors& tensors, const MilesWriteOptions& options)
      : ops_(ops), layout_(layout), tensors_(tensors), options_(options) {}

  // `tensor_indices`: the owner's changed tensors, ascending. Returns the length of the file.
  Result<uint64_t> Write(const fs::path& path, const std::vector<uint32_t>& tensor_indices) {
    XORBIT_ASSIGN_OR_RETURN(const Buffer longest_header, LongestHeader(tensor_indices));
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops_.Create(path, /*exclusive=*/true));
    OrderedAppender appender(ops_, fd, longest_header.size());
    SafetensorsHeaderSpec header;
    header.entries.resize(tensor_indices.size());
    std::vector<std::string> checksums(tensor_indices.size());
    XORBIT_RETURN_IF_ERROR(ParallelFor(options_.threads, tensor_indices.size(), [&](uint64_t i) -> Status {
      Result<EncodedTensor> encoded = Encode(tensor_indices[i]);
      if (!encoded.ok()) return appender.Fail(encoded.status());
      header.entries[i] = Entry(tensor_indices[i], encoded->frame.size());
      checksums[i] = std::move(encoded->checksum);
      return appender.Append(i, encoded->frame);
    }));
    for (size_t i = 0; i < tensor_indices.size(); ++i) header.metadata[NameOf(tensor_indices[i])] = std::move(checksums[i]);
    XORBIT_ASSIGN_OR_RETURN(Buffer header_bytes, BuildSafetensorsHeader(header));
    assert(header_bytes.size() <= longest_header.size());
    header_bytes.resize(longest_header.size(), ' ');
    StoreLe<uint64_t>(header_bytes.data(), header_bytes.size() - sizeof(uint64_t));
    XORBIT_RETURN_IF_ERROR(ops_.Pwrite(fd, header_bytes, 0));
    XORBIT_RETURN_IF_ERROR(ops_.Sync(fd));
    return header_bytes.size() + appender.appended_bytes();
  }

 private:
  const std::string& NameOf(uint32_t tensor_index) const { return layout_.tensors()[tensor_index].name; }

  SafetensorsEntry Entry(uint32_t tensor_index, uint64_t byte_count) const {
    SafetensorsEntry entry;
    entry.name = NameOf(tensor_index);
    entry.shape = {byte_count};
    return entry;
  }

  Result<EncodedTensor> Encode(uint32_t tensor_index) const {
    const ConstBytes old_bytes = tensors_.olds[tensor_index];
    const ConstBytes new_bytes = tensors_.news[tensor_index];
    Result<EncodedTensor> encoded = options_.encoding == MilesEncoding::kXor ? EncodeXor(old_bytes, new_bytes, options_)
                                                                             : EncodeOverwrite(old_bytes, new_bytes, options_);
    if (!encoded.ok()) return encoded.status().WithContext(Quoted(NameOf(tensor_index)));
    return encoded;
  }

  // Numbers of more digits make a longer header, so the longest frames do.
  Result<Buffer> LongestHeader(const std::vector<uint32_t>& tensor_indices) const {
    SafetensorsHeaderSpec header;
    const std::string checksum = ChecksumOf(options_.checksum_format, {});  // all are of one length
    for (const uint32_t tensor_index : tensor_indices) {
      const uint64_t bytes_at_most = 5 * tensors_.news[tensor_index].size() + sizeof(uint32_t);
      header.entries.push_back(Entry(tensor_index, MaxStreamedZstdBytes(bytes_at_most)));
      header.metadata[NameOf(tensor_index)] = checksum;
    }
    return BuildSafetensorsHeader(header);
  }

  FileOps& ops_;
  const Layout& layout_;
  const Tensors& tensors_;
  const MilesWriteOptions& options_;
};

// changed[i]: tensor i differs. Refuses changes that the format or the layout forbids.
Result<std::vector<uint8_t>> FindChangedTensors(const Layout& layout, const Tensors& tensors,
                                                const MilesWriteOptions& options) {
  std::vector<uint8_t> changed(layout.tensors().size());
  XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, changed.size(), [&](uint64_t i) -> Status {
    const TensorSpec& tensor = layout.tensors()[i];
    assert(tensors.olds[i].size() == tensor.byte_count && tensors.news[i].size() == tensor.byte_count);
    if (std::equal(tensors.olds[i].begin(), tensors.olds[i].end(), tensors.news[i].begin())) return {};
    if (tensor.frozen) return RefusedError("tensor " + Quoted(tensor.name) + " is frozen, but it changes");
    if (options.encoding == MilesEncoding::kOverwrite && tensor.byte_count - 1 > UINT32_MAX) {
      return RefusedError("tensor " + Quoted(tensor.name) + " is too long for the overwrite encoding; use xor");
    }
    changed[i] = 1;
    return {};
  }));
  return changed;
}

// Changed tensors of each owner that has any, ascending.
Result<std::vector<std::vector<uint32_t>>> PlanFiles(const Layout& layout, const std::vector<uint8_t>& changed,
                                                     uint32_t owner_count) {
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(layout, owner_count, Split::kWhole));
  std::vector<std::vector<uint32_t>> files;
  for (const std::vector<SegmentMap>& segments : owners) {
    std::vector<uint32_t> tensor_indices;
    for (const SegmentMap& segment : segments) {
      for (const Part& part : segment.parts()) {
        if (changed[part.tensor_index] != 0) tensor_indices.push_back(part.tensor_index);
      }
    }
    std::sort(tensor_indices.begin(), tensor_indices.end());
    if (!tensor_indices.empty()) files.push_back(std::move(tensor_indices));
  }
  return files;
}

}  // namespace

Result<MilesWriteReport> WriteMilesFolder(FileOps& ops, const fs::path& folder, const Layout& layout,
                                          std::span<const ConstBytes> olds, std::span<const ConstBytes> news,
                                          const MilesWriteOptions& options) {
  const Tensors tensors{olds, news};
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, folder));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint8_t> changed, FindChangedTensors(layout, tensors, options));
  XORBIT_ASSIGN_OR_RETURN(const auto files, PlanFiles(layout, changed, options.owner_count));
  MilesIndex index{options.version, options.base_version, options.encoding, options.checksum_format, {}};
  MilesWriteReport report;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file_name = MilesPayloadName(i, files.size());
    Result<uint64_t> written = PayloadFile(ops, layout, tensors, options).Write(staged.path() / file_name, files[i]);
    if (!written.ok()) return written.status().WithContext(file_name);
    report.total_file_bytes += *written;
    report.changed_tensor_count += files[i].size();
    for (const uint32_t tensor_index : files[i]) index.weight_map[layout.tensors()[tensor_index].name] = file_name;
  }
  const std::string index_text = WriteMilesIndex(index);
  report.total_file_bytes += index_text.size();
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, staged.path() / kMilesIndexFile, AsBytes(index_text)));
  XORBIT_RETURN_IF_ERROR(staged.Publish());
  return report;
}

}  // namespace xorbit
