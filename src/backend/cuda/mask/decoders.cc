#include "backend/cuda/mask/decoders.h"

#include <algorithm>

#include "backend/cuda/mask/cpu_decoder.h"
#include "backend/cuda/mask/engine_decoder.h"
#include "backend/cuda/mask/kernel_decoder.h"
#include "backend/cuda/mask/nvcomp_decoder.h"

namespace xorbit::cuda {
namespace {

constexpr std::string_view kNvcomp = "nvcomp";

// Takes the kernels for what is too long for it.
Result<std::unique_ptr<EngineDecoder>> MakeEngine(InnerKind kind, bool has_digests, int device, FrameDecoder* kernels,
                                                  const DriverApi** driver) {
  if (!has_digests) return UnsupportedError("what an engine decodes is proven by digests, which a payload here lacks");
  XORBIT_ASSIGN_OR_RETURN(*driver, FindDriverApi());
  return EngineDecoder::Make(**driver, device, kind, kernels);
}

}  // namespace

Result<DecoderChoice> ChooseDecoders(const std::string& name, InnerKind kind, bool has_digests, int device, int threads) {
  const bool is_nvcomp = name == kNvcomp || name.starts_with(std::string(kNvcomp) + ":");
  if (!name.empty() && name != "engine" && name != "kernels" && name != "cpu" && !is_nvcomp) {
    return UsageError("there is no decoder '" + name + "': engine, kernels, cpu, or nvcomp:FOLDER");
  }
  DecoderChoice choice;
  if (is_nvcomp) {
    const std::string folder = name.substr(std::min(name.size(), kNvcomp.size() + 1));
    if (!has_digests) return UnsupportedError("what nvCOMP decodes is proven by digests, which a payload here lacks");
    XORBIT_ASSIGN_OR_RETURN(std::unique_ptr<NvcompDecoder> nvcomp, NvcompDecoder::Make(folder, kind));
    choice.decoders.push_back(std::move(nvcomp));
    choice.decoders.push_back(std::make_unique<KernelDecoder>());
    choice.reads_device_memory = true;
    return choice;
  }
  if (name == "cpu" || (kind == InnerKind::kZstd && name.empty())) {
    XORBIT_ASSIGN_OR_RETURN(std::unique_ptr<CpuDecoder> cpu, CpuDecoder::Make(threads));
    choice.decoders.push_back(std::move(cpu));
    return choice;
  }
  if (kind == InnerKind::kZstd) {
    return UnsupportedError("Zstd frames are decoded by the CPU only: leave the decoder open");
  }
  auto kernels = std::make_unique<KernelDecoder>();
  if (name != "kernels") {
    const DriverApi* driver = nullptr;
    Result<std::unique_ptr<EngineDecoder>> engine = MakeEngine(kind, has_digests, device, kernels.get(), &driver);
    if (!engine.ok() && name == "engine") return engine.status();
    if (engine.ok()) {
      choice.decoders.push_back(std::move(engine).value());
      choice.engine_driver = driver;
    }
  }
  choice.reads_device_memory = choice.decoders.empty();
  choice.decoders.push_back(std::move(kernels));
  return choice;
}

}  // namespace xorbit::cuda
