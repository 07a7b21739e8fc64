#include "cli/demo_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/parallel.h"
#include "base/text.h"
#include "change/state_digest.h"
#include "tensor/layout.h"
#include "tensor/safetensors.h"

namespace xorbit {
namespace {

constexpr uint64_t kHidden = 1024;
constexpr uint64_t kExperts = 4;         // of each layer
constexpr uint64_t kIntermediate = 768;  // of each expert
constexpr uint64_t kKeyValue = 256;
constexpr uint64_t kVocabulary = 4096;
constexpr uint64_t kLayerElements =
    2 * kHidden * kHidden + 2 * kKeyValue * kHidden + 3 * kExperts * kIntermediate * kHidden + 2 * kHidden;

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  float standard_deviation;  // 0: a norm weight, all ones
};

std::vector<Tensor> ModelTensors(uint64_t total_bytes) {
  const uint64_t outside = 2 * kVocabulary * kHidden + kHidden;
  const uint64_t elements = total_bytes / 2;
  const uint64_t layer_count = elements > outside + kLayerElements ? (elements - outside) / kLayerElements : 1;
  constexpr float kDeviation = 0.02F;
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", {kVocabulary, kHidden}, kDeviation}};
  for (uint64_t layer = 0; layer < layer_count; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    tensors.push_back({prefix + "input_layernorm.weight", {kHidden}, 0});
    tensors.push_back({prefix + "self_attn.q_proj.weight", {kHidden, kHidden}, kDeviation});
    tensors.push_back({prefix + "self_attn.k_proj.weight", {kKeyValue, kHidden}, kDeviation});
    tensors.push_back({prefix + "self_attn.v_proj.weight", {kKeyValue, kHidden}, kDeviation});
    tensors.push_back({prefix + "self_attn.o_proj.weight", {kHidden, kHidden}, kDeviation});
    tensors.push_back({prefix + "post_attention_layernorm.weight", {kHidden}, 0});
    for (uint64_t expert = 0; expert < kExperts; ++expert) {
      const std::string expert_prefix = prefix + "mlp.experts." + std::to_string(expert) + ".";
      tensors.push_back({expert_prefix + "gate_proj.weight", {kIntermediate, kHidden}, kDeviation});
      tensors.push_back({expert_prefix + "up_proj.weight", {kIntermediate, kHidden}, kDeviation});
      tensors.push_back({expert_prefix + "down_proj.weight", {kHidden, kIntermediate}, kDeviation});
    }
  }
  tensors.push_back({"model.norm.weight", {kHidden}, 0});
  tensors.push_back({"lm_head.weight", {kVocabulary, kHidden}, kDeviation});
  return tensors;
}

// Approximately standard normal: four 16-bit uniforms of one splitmix64 value, summed (Irwin-Hall) and scaled.
float Normal(uint64_t bits) {
  const auto sum =
      static_cast<int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 2 * 65535;
  return static_cast<float>(sum) * static_cast<float>(1.7320508 / 65536.0);
}

// Round to nearest even. Weights are finite.
uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// FP32 weights and Adam's moments of one tensor.
class TrainedTensor {
 public:
  TrainedTensor(const Tensor& tensor, uint64_t element_count, uint64_t seed)
      : seed_(seed), weights_(element_count), first_moments_(element_count), steady_(element_count) {
    for (uint64_t i = 0; i < element_count; ++i) {
      weights_[i] = tensor.standard_deviation == 0 ? 1.0F : tensor.standard_deviation * Normal(Random(i, 0));
      steady_[i] = 0.1F * Normal(Random(i, 1));
      // In the middle of a run the first moment is an average of past gradients: noise shrunk by (1 - b1) / (1 + b1).
      first_moments_[i] = 0.23F * Normal(Random(i, 2)) + steady_[i];
    }
  }

  // One Adam step with b1 = 0.9. The second moment, a long average (b2 = 0.999) of squares, is taken at its mean.
  void Step(uint32_t step, float learning_rate) {
    constexpr float kBeta1 = 0.9F;
    for (uint64_t i = 0; i < weights_.size(); ++i) {
      const float gradient = Normal(Random(i, 3 + step)) + steady_[i];
      first_moments_[i] = kBeta1 * first_moments_[i] + (1 - kBeta1) * gradient;
      weights_[i] -= learning_rate * first_moments_[i] / std::sqrt(1.0F + steady_[i] * steady_[i]);
    }
  }

  void RoundTo(Buffer* out) const {
    out->resize(weights_.size() * 2);
    for (uint64_t i = 0; i < weights_.size(); ++i) StoreLe<uint16_t>(out->data() + 2 * i, ToBfloat16(weights_[i]));
  }

 private:
  uint64_t Random(uint64_t index, uint64_t purpose) const { return SplitMix64(seed_ ^ SplitMix64(index * 64 + purpose)); }

  uint64_t seed_;
  std::vector<float> weights_;
  std::vector<float> first_moments_;
  std::vector<float> steady_;
};

std::string ConfigJson(uint64_t layer_count) {
  return R"({
  "model_type": "qwen3_moe",
  "hidden_size": 1024,
  "moe_intermediate_size": 768,
  "num_experts": 4,
  "num_hidden_layers": )" +
         std::to_string(layer_count) + R"(,
  "vocab_size": 4096,
  "torch_dtype": "bfloat16"
}
)";
}

struct StepFile {
  fs::path folder;
  UniqueFd fd;
};

Result<std::vector<StepFile>> CreateStepFiles(FileOps& ops, const fs::path& root, uint32_t step_count, ConstBytes header,
                                              uint64_t layer_count) {
  std::vector<StepFile> files;
  for (uint32_t step = 0; step <= step_count; ++step) {
    StepFile file{root / ("step_" + ZeroPadded(step, 6)), {}};
    XORBIT_RETURN_IF_ERROR(ops.MakeFolder(file.folder));
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, file.folder / "config.json", AsBytes(ConfigJson(layer_count))));
    XORBIT_ASSIGN_OR_RETURN(file.fd, ops.Create(file.folder / "model.safetensors", /*exclusive=*/true));
    XORBIT_RETURN_IF_ERROR(ops.Pwrite(file.fd, header, 0));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<std::vector<fs::path>> WriteDemoRun(FileOps& ops, const fs::path& root, const DemoModelOptions& options,
                                           Progress* progress) {
  const std::vector<Tensor> tensors = ModelTensors(options.total_bytes);
  SafetensorsHeaderSpec spec;
  spec.metadata["format"] = "pt";
  for (const Tensor& tensor : tensors) spec.entries.push_back({tensor.name, Dtype::kBF16, tensor.shape, 0, 0});
  XORBIT_ASSIGN_OR_RETURN(const Buffer header, BuildSafetensorsHeader(spec));
  std::vector<uint64_t> offsets = {header.size()};
  for (const Tensor& tensor : tensors) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t byte_count, ByteCountOf(Dtype::kBF16, tensor.shape));
    offsets.push_back(offsets.back() + byte_count);
  }
  const auto layer_count =
      static_cast<uint64_t>(std::ranges::count_if(tensors, [](const Tensor& t) { return t.name.ends_with(".q_proj.weight"); }));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<StepFile> files,
                          CreateStepFiles(ops, root, options.step_count, header, layer_count));
  if (progress != nullptr) progress->Begin("train", offsets.back());

  XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, tensors.size(), [&](uint64_t index) -> Status {
    const uint64_t byte_count = offsets[index + 1] - offsets[index];
    TrainedTensor trained(tensors[index], byte_count / 2, SplitMix64(options.seed * 1000003 + index));
    Buffer rounded;
    for (uint32_t step = 0; step <= options.step_count; ++step) {
      if (step > 0) trained.Step(step, static_cast<float>(options.learning_rate));
      trained.RoundTo(&rounded);
      XORBIT_RETURN_IF_ERROR(ops.Pwrite(files[step].fd, rounded, offsets[index]));
    }
    if (progress != nullptr) progress->done += byte_count;
    return {};
  }));
  std::vector<fs::path> folders;
  for (const StepFile& file : files) folders.push_back(file.folder);
  return folders;
}

}  // namespace xorbit
