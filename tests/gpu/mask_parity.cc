// Small frames, so that small updates have many of them, and slots as small as they may be, so that these take several batches.
#include "mask_parity.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/mask/host_inner.h"
#include "backend/cuda/mask/mask_kernels.h"
#include "backend/cuda/testing/marked_mask.h"
#include "backend/cuda/testing/random_mask.h"
#include "backend_parity.h"
#include "binding_parity.h"
#include "codec/mask_codec.h"

namespace xorbit::gpu_check {
namespace {

using cuda::FrameOnDevice;
using cuda::FrameState;
using cuda::InnerKind;
using cuda::testing::Download;
using cuda::testing::Report;
using cuda::testing::Upload;

constexpr uint64_t kSmallSlotBytes = uint64_t{4} << 20;
constexpr uint8_t kUntouched = 0xa5;

void CheckCase(const Backend& cuda_backend, const Backend& cpu_backend, uint64_t seed, const Codec& codec,
               std::span<const std::string> decoders, Report* report) {
  EncodeOptions encoding;
  const uint64_t frame_bytes[] = {uint64_t{1} << 20, 4096, 512, uint64_t{64} << 10};
  encoding.frame_bytes = frame_bytes[seed % 4];
  const Result<Case> c = MakeCase(cpu_backend, seed, codec.id(), encoding);
  report->Check(c.status(), "making mask seed " + std::to_string(seed));
  if (!c.ok()) return;
  cuda::DeviceBuffer lent;
  for (const std::string& decoder : decoders) {
    if (codec.id() == CodecId::kZstd && !decoder.empty() && decoder != "cpu") continue;
    PrepareOptions options;
    options.masks.decoder = decoder;
    options.masks.slot_bytes = seed % 2 == 0 ? kSmallSlotBytes : 0;
    options.masks.slot_count = static_cast<uint32_t>(2 + seed % 3);
    options.masks.keeps_inner_on_host = seed % 5 == 0;
    if (seed % 7 == 3) {  // slots that somebody else owns
      if (lent.byte_count() == 0) {
        auto made = cuda::DeviceBuffer::Make(options.masks.slot_count * kSmallSlotBytes);
        report->Check(made.status(), "lent slots");
        if (made.ok()) lent = std::move(*made);
      }
      options.masks.lent_dev = MutableBytes(lent.data_dev(), lent.byte_count());
    }
    options.partial = seed % 3 == 0;
    options.threads = 2;
    options.throttle = seed % 2 == 0 ? ServingThrottle{1, 1, 1, 1} : ServingThrottle::None();
    CheckPrepared(cuda_backend, cpu_backend, *c, options, report);
    if (seed % 3 == 1) CheckByPortions(cuda_backend, *c, options, report);
  }
}

// Payloads with bits flipped: refused by both, or taken by both.
void CheckDamaged(const Backend& cuda_backend, const Backend& cpu_backend, uint64_t seed, const Codec& codec, Report* report) {
  const Result<Case> c = MakeCase(cpu_backend, seed, codec.id(), {});
  if (!c.ok() || c->update.payload_bytes.size() != 1) return;
  Random random(seed);
  for (int i = 0; i < 4; ++i) {
    const auto [bytes, flipped] = cuda::testing::Damage(c->update.payload_bytes.front(), random);
    const Result<PayloadView> payload = ParsePayload(c->layout(), bytes);
    if (!payload.ok()) continue;
    report->Check(SetLive(*c, *c->update.before), Where(*c, "upload"));
    std::vector<MutableBytes> regions;
    for (size_t r = 0; r < c->regions.size(); ++r) {
      regions.emplace_back(RegionOnDevice(*c, r), c->map.regions()[r].byte_count);
    }
    std::vector<Buffer> image = ImageOf(*c, *c->update.before);
    const std::vector<MutableBytes> host(image.begin(), image.end());
    PrepareOptions options;
    options.throttle = ServingThrottle::None();
    const auto got = cuda_backend.Prepare(c->layout(), {&*payload, 1}, {&c->map, regions, {}}, options);
    const auto want = cpu_backend.Prepare(c->layout(), {&*payload, 1}, {&c->map, host, {}}, options);
    if (got.status().message().find("multiple of 4 bytes") != std::string::npos) return;
    report->Check(got.status().code() == want.status().code(),
                  Where(*c, std::string(codec.name()) + " damaged at" + flipped + ": the CPU says '" + want.status().message() +
                                "', the device '" + got.status().message() + "'"));
  }
}

// Damaged frames side by side in one launch: each is taken only for what the stock decoder reads, and nothing is written
// between masks.
class HostileFrames {
 public:
  static constexpr uint64_t kFramesOfALaunch = 400;

  HostileFrames(InnerKind kind, uint64_t seed) : kind_(kind), random_(seed) {
    for (uint64_t i = 0; i < kFramesOfALaunch; ++i) {
      const Buffer mask = cuda::testing::RandomMaskBytes(random_, 1 + random_() % (i % 50 == 0 ? 1'000'000 : 5000));
      Buffer frame =
          random_() % 2 == 0 ? cuda::testing::EncodeMaskBytes(kind, mask) : cuda::testing::EncodeByStockLibrary(kind, mask);
      if (i % 4 != 0) cuda::testing::DamageFrame(random_, &frame);
      FrameOnDevice on_device{};
      on_device.slot_offset = slot_bytes_;
      on_device.inner_bytes = static_cast<uint32_t>(frame.size());
      on_device.mask_bytes = static_cast<uint32_t>(mask.size());
      places_.push_back(inner_.size());
      AppendBytes(inner_, frame);
      slot_bytes_ += (mask.size() + cuda::kMaskAlignment) / cuda::kMaskAlignment * cuda::kMaskAlignment;
      frames_.push_back(on_device);
    }
    inner_.resize((inner_.size() + cuda::kInnerAlignment) / cuda::kInnerAlignment * cuda::kInnerAlignment);
  }

  // engine_driver: of the memory on the host that the frames are read from, as an engine would; null: from the device's own.
  Status Decode(const cuda::DriverApi* engine_driver, cudaStream_t stream) {
    const uint64_t count = frames_.size();
    cuda::DeviceBuffer inner_dev;
    cuda::HostInner inner_host;
    if (engine_driver == nullptr) {
      XORBIT_ASSIGN_OR_RETURN(inner_dev, cuda::DeviceBuffer::Make(inner_.size()));
      XORBIT_RETURN_IF_ERROR(Upload(inner_dev.data_dev(), inner_));
    } else {
      XORBIT_ASSIGN_OR_RETURN(inner_host, cuda::HostInner::Make(inner_.size(), engine_driver, 0));
      std::ranges::copy(inner_, inner_host.bytes().begin());
    }
    const uint8_t* const inner = engine_driver == nullptr ? inner_dev.data_dev() : inner_host.bytes().data();
    for (uint64_t i = 0; i < count; ++i) frames_[i].inner = inner + places_[i];
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer slot, cuda::DeviceBuffer::Make(slot_bytes_));
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer groups,
                            cuda::DeviceBuffer::Make(slot_bytes_ / cuda::kGroupWordBytes * sizeof(uint32_t)));
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer frames, cuda::DeviceBuffer::Make(count * sizeof(FrameOnDevice)));
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer lengths, cuda::DeviceBuffer::Make(count * sizeof(uint32_t)));
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer states, cuda::DeviceBuffer::Make(count * sizeof(FrameState)));
    XORBIT_RETURN_IF_ERROR(
        Upload(frames.data_dev(), {reinterpret_cast<const uint8_t*>(frames_.data()), count * sizeof(FrameOnDevice)}));
    XORBIT_RETURN_IF_ERROR(Upload(slot.data_dev(), Buffer(slot_bytes_, kUntouched)));
    XORBIT_RETURN_IF_ERROR(Upload(groups.data_dev(), Buffer(groups.byte_count())));
    XORBIT_RETURN_IF_ERROR(Upload(states.data_dev(), Buffer(count * sizeof(FrameState))));
    XORBIT_RETURN_IF_ERROR(cuda::LaunchFrameDecode({kind_, frames_, reinterpret_cast<const FrameOnDevice*>(frames.data_dev()),
                                                    reinterpret_cast<uint32_t*>(lengths.data_dev()),
                                                    reinterpret_cast<FrameState*>(states.data_dev()), slot.data_dev(),
                                                    reinterpret_cast<uint32_t*>(groups.data_dev()), false, 0, stream}));
    XORBIT_RETURN_IF_ERROR(cuda::CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize of hostile frames"));
    slot_.resize(slot_bytes_);
    lengths_.resize(count);
    groups_.resize(groups.byte_count() / sizeof(uint32_t));
    XORBIT_RETURN_IF_ERROR(Download(slot_, slot.data_dev()));
    XORBIT_RETURN_IF_ERROR(Download({reinterpret_cast<uint8_t*>(groups_.data()), groups.byte_count()}, groups.data_dev()));
    return Download({reinterpret_cast<uint8_t*>(lengths_.data()), count * sizeof(uint32_t)}, lengths.data_dev());
  }

  uint64_t refused_count() const { return refused_count_; }

  void Judge(const std::string& what, Report* report) {
    for (size_t i = 0; i < frames_.size(); ++i) {
      const FrameOnDevice& frame = frames_[i];
      const Buffer got = cuda::testing::MarkedMask(ConstBytes(slot_).subspan(frame.slot_offset, frame.mask_bytes),
                                                   std::span(groups_).subspan(frame.slot_offset / cuda::kGroupWordBytes));
      Buffer want(frame.mask_bytes);
      const bool is_valid =
          cuda::testing::CodecOf(kind_).Decode(ConstBytes(inner_).subspan(places_[i], frame.inner_bytes), want).ok();
      const bool is_taken = lengths_[i] == frame.mask_bytes;
      if (!is_taken) ++refused_count_;
      const std::string where = what + ", frame " + std::to_string(i);
      report->Check(i % 4 != 0 || is_taken, where + ": a valid frame was refused");
      if (kind_ == InnerKind::kSnappy) report->Check(is_taken == is_valid, where + ": another verdict than Snappy's");
      if (is_taken && is_valid) report->Check(std::equal(got.begin(), got.end(), want.begin()), where + ": other bytes");
      const uint64_t end = i + 1 < frames_.size() ? frames_[i + 1].slot_offset : slot_.size();
      const uint64_t whole = (frame.mask_bytes + cuda::kGroupBytes - 1) / cuda::kGroupBytes * cuda::kGroupBytes;
      const auto rest = ConstBytes(slot_).subspan(frame.slot_offset + whole, end - frame.slot_offset - whole);
      report->Check(std::all_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte == kUntouched; }),
                    where + ": wrote behind its mask");
    }
  }

 private:
  InnerKind kind_;
  std::mt19937_64 random_;
  std::vector<uint64_t> places_;
  std::vector<FrameOnDevice> frames_;
  Buffer inner_;
  uint64_t slot_bytes_ = 0;
  Buffer slot_;
  std::vector<uint32_t> groups_;
  std::vector<uint32_t> lengths_;
  uint64_t refused_count_ = 0;
};

// The driver, if it makes memory on the host for an engine, whether or not this machine has one.
const cuda::DriverApi* EngineDriver(Report* report) {
  const Result<const cuda::DriverApi*> driver = cuda::FindDriverApi();
  if (!driver.ok()) {
    report->Note("engine memory", "made", "no: " + driver.status().message());
    return nullptr;
  }
  uint64_t byte_count = 1;
  const Result<void*> memory = (*driver)->MakeHostMemory(0, &byte_count);
  report->Note("engine memory", "made",
               memory.ok() ? std::to_string(byte_count) + " bytes" : "no: " + memory.status().message());
  if (!memory.ok()) return nullptr;
  const Result<bool> is_capable = (*driver)->IsCapable(*memory);
  report->Note("engine memory", "capable", !is_capable.ok() ? is_capable.status().message() : *is_capable ? "yes" : "no");
  (*driver)->FreeHostMemory(*memory, byte_count);
  return *driver;
}

// Returns how many were refused.
uint64_t CheckHostile(uint64_t seed, const cuda::DriverApi* engine_driver, Report* report) {
  uint64_t refused_count = 0;
  for (const InnerKind kind : {InnerKind::kSnappy, InnerKind::kLz4}) {
    const std::string what =
        std::string("hostile ") + (kind == InnerKind::kSnappy ? "Snappy" : "LZ4") + " seed " + std::to_string(seed);
    HostileFrames frames(kind, seed);
    const Status status = frames.Decode(engine_driver, report->stream());
    report->Check(status, what);
    if (status.ok()) frames.Judge(what, report);
    refused_count += frames.refused_count();
  }
  return refused_count;
}

}  // namespace

void CheckMasks(uint64_t first_seed, uint64_t count, std::span<const std::string> decoders, Report* report) {
  std::vector<std::string> all = {"", "kernels", "cpu"};
  std::ranges::copy_if(decoders, std::back_inserter(all),
                       [&](const std::string& name) { return std::ranges::find(all, name) == all.end(); });
  const auto cpu_backend = MakeCpuBackend();
  const auto cuda_backend = MakeCudaBackend();
  report->Check(cuda_backend.status(), "making the CUDA backend");
  if (!cuda_backend.ok()) return;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const Codec& codec = *MaskCodecs()[seed % MaskCodecs().size()];
    CheckCase(**cuda_backend, *cpu_backend, seed, codec, all, report);
    CheckDamaged(**cuda_backend, *cpu_backend, seed, codec, report);
    CheckBindings(**cuda_backend, *cpu_backend, seed, report, codec.id());
    if (seed % 4 == 0) CheckHostile(seed, nullptr, report);
    if (report->failure_count() > 20) break;
  }
  report->Note("mask parity", "checks", std::to_string(report->check_count()));
}

void CheckDamagedFrames(uint64_t first_seed, uint64_t frame_count, Report* report) {
  const uint64_t rounds = (frame_count + HostileFrames::kFramesOfALaunch - 1) / HostileFrames::kFramesOfALaunch;
  uint64_t refused_count = 0;
  const cuda::DriverApi* const driver = EngineDriver(report);
  for (uint64_t i = 0; i < rounds && report->failure_count() <= 20; ++i)
    refused_count += CheckHostile(first_seed + i, i % 2 == 1 ? driver : nullptr, report);
  report->Note("damaged frames", "decoded", std::to_string(2 * rounds * HostileFrames::kFramesOfALaunch));
  report->Note("damaged frames", "refused", std::to_string(refused_count));
}

}  // namespace xorbit::gpu_check
