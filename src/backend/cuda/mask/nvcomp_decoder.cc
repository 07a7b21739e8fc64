#include "backend/cuda/mask/nvcomp_decoder.h"

#include <dlfcn.h>

#include <algorithm>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kVersion = 6;  // the first of three numbers
constexpr int32_t kCudaBackend = 2;
constexpr int kUnsupportedKind = 11;

// Both codecs' options: 64 bytes, those that they do not share are zero for plain bytes.
struct Options {
  int32_t backend = kCudaBackend;
  int32_t sorts_for_hardware = 0;
  std::array<uint8_t, 56> reserved{};
};
static_assert(sizeof(Options) == 64);

struct Properties {
  uint32_t version = 0;  // 1000 * first + 100 * second + third
  uint32_t cudart_version = 0;
};

// Parallel lists of a batch, as its call takes them.
constexpr uint64_t kListCount = 6;
struct Lists {
  uint64_t* inner;        // addresses
  uint64_t* inner_bytes;  //
  uint64_t* mask_bytes;   // room for each
  uint64_t* masks;        // addresses
  uint64_t* decoded;      // written
  uint32_t* states;       // written
  Lists(uint8_t* memory, uint64_t count)
      : inner(reinterpret_cast<uint64_t*>(memory)),
        inner_bytes(inner + count),
        mask_bytes(inner_bytes + count),
        masks(mask_bytes + count),
        decoded(masks + count),
        states(reinterpret_cast<uint32_t*>(decoded + count)) {}
};

template <typename Function>
bool Find(void* library, const std::string& name, Function** function) {
  *function = reinterpret_cast<Function*>(::dlsym(library, name.c_str()));
  return *function != nullptr;
}

Status NvcompStatus(int result, const char* call) {
  if (result == 0) return {};
  const std::string text = "nvCOMP's " + std::string(call) + " failed: its status " + std::to_string(result);
  return result == kUnsupportedKind ? UnsupportedError(text) : IoError(text);
}

}  // namespace

// Results are ints, 0 is success.
struct NvcompDecoder::Calls {
  int (*get_properties)(Properties* properties) = nullptr;
  int (*scratch_bytes)(size_t frame_count, size_t most_mask_bytes, Options options, size_t* scratch_bytes,
                       size_t all_mask_bytes, cudaStream_t stream) = nullptr;
  int (*decode)(const uint64_t* inner, const uint64_t* inner_bytes, const uint64_t* mask_bytes, uint64_t* decoded,
                size_t frame_count, void* scratch, size_t scratch_bytes, const uint64_t* masks, Options options,
                uint32_t* states, cudaStream_t stream) = nullptr;

  bool FindAll(void* library, const std::string& codec) {
    return Find(library, "nvcompGetProperties", &get_properties) &&
           Find(library, "nvcompBatched" + codec + "DecompressGetTempSize", &scratch_bytes) &&
           Find(library, "nvcompBatched" + codec + "DecompressAsync", &decode);
  }
};

Result<std::unique_ptr<NvcompDecoder>> NvcompDecoder::Make(const std::string& folder, InnerKind kind) {
  if (kind == InnerKind::kZstd) return UnsupportedError("nvCOMP is asked for Snappy and LZ4 only");
  const std::string path = (folder.empty() ? "" : folder + "/") + "libnvcomp.so.6";
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  if (library == nullptr) {
    return UnsupportedError("no nvCOMP here: " + std::string(::dlerror()));  // NOLINT(concurrency-mt-unsafe): glibc's is
  }
  static Calls snappy;
  static Calls lz4;
  Calls& calls = kind == InnerKind::kSnappy ? snappy : lz4;
  if (!calls.FindAll(library, kind == InnerKind::kSnappy ? "Snappy" : "LZ4")) {
    return UnsupportedError(path + " lacks calls of nvCOMP " + std::to_string(kVersion));
  }
  Properties properties;
  XORBIT_RETURN_IF_ERROR(NvcompStatus(calls.get_properties(&properties), "nvcompGetProperties"));
  if (properties.version / 1000 != kVersion) {
    return UnsupportedError(path + " is version " + std::to_string(properties.version) + ", not " + std::to_string(kVersion));
  }
  std::unique_ptr<NvcompDecoder> decoder(new NvcompDecoder(calls));  // tidy-allow: private
  for (Batch& batch : decoder->batches_) {
    XORBIT_ASSIGN_OR_RETURN(batch.done, MakeSleepingEvent());
  }
  return decoder;
}

Status NvcompDecoder::Reserve(uint64_t frame_count, uint64_t scratch_bytes, Batch* batch) const {
  if (batch->frame_count < frame_count) {
    XORBIT_ASSIGN_OR_RETURN(batch->lists_host, PinnedBuffer::Make(frame_count * kListCount * sizeof(uint64_t)));
    XORBIT_ASSIGN_OR_RETURN(batch->lists_dev, DeviceBuffer::Make(frame_count * kListCount * sizeof(uint64_t)));
    batch->frame_count = frame_count;
  }
  if (batch->scratch_dev.byte_count() < scratch_bytes) {
    XORBIT_ASSIGN_OR_RETURN(batch->scratch_dev, DeviceBuffer::Make(scratch_bytes));
  }
  return {};
}

Status NvcompDecoder::Submit(const DecodeJob& job) {
  const uint64_t count = job.frames.size();
  if (count == 0) return {};
  Batch& batch = batches_[next_++ % batches_.size()];
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(batch.done.get()), "cudaEventSynchronize of a batch of nvCOMP's"));
  uint64_t most_mask_bytes = 0;
  uint64_t all_mask_bytes = 0;
  for (const FrameOnDevice& frame : job.frames) {
    most_mask_bytes = std::max<uint64_t>(most_mask_bytes, frame.mask_bytes);
    all_mask_bytes += frame.mask_bytes;
  }
  size_t scratch_bytes = 0;
  XORBIT_RETURN_IF_ERROR(NvcompStatus(
      calls_->scratch_bytes(count, most_mask_bytes, Options(), &scratch_bytes, all_mask_bytes, job.stream), "temp size"));
  XORBIT_RETURN_IF_ERROR(Reserve(count, std::max<size_t>(scratch_bytes, 1), &batch));
  const Lists host(batch.lists_host.bytes().data(), count);
  const Lists dev(batch.lists_dev.data_dev(), count);
  for (uint64_t i = 0; i < count; ++i) {
    const FrameOnDevice& frame = job.frames[i];
    host.inner[i] = reinterpret_cast<uint64_t>(frame.inner);
    host.inner_bytes[i] = frame.inner_bytes;
    host.mask_bytes[i] = frame.mask_bytes;
    host.masks[i] = reinterpret_cast<uint64_t>(job.slot_dev + frame.slot_offset);
  }
  const uint64_t read_bytes = 4 * count * sizeof(uint64_t);
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(batch.lists_dev.data_dev(), batch.lists_host.bytes().data(), read_bytes,
                                                    cudaMemcpyHostToDevice, job.stream),
                                    "cudaMemcpyAsync of nvCOMP's lists to the device"));
  XORBIT_RETURN_IF_ERROR(
      NvcompStatus(calls_->decode(dev.inner, dev.inner_bytes, dev.mask_bytes, dev.decoded, count, batch.scratch_dev.data_dev(),
                                  scratch_bytes, dev.masks, Options(), dev.states, job.stream),
                   "batched decompression"));
  // The low halves of its lengths are ours.
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemcpy2DAsync(job.decoded_bytes_dev, sizeof(uint32_t), dev.decoded, sizeof(uint64_t),
                                                      sizeof(uint32_t), count, cudaMemcpyDeviceToDevice, job.stream),
                                    "cudaMemcpy2DAsync of lengths"));
  return CudaStatus(cudaEventRecord(batch.done.get(), job.stream), "cudaEventRecord");
}

}  // namespace xorbit::cuda
