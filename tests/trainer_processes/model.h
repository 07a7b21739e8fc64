// A model as trainers shard it, and what its weights are in every version of every life of the run. All follows from a seed, so
// that ranks in different processes agree, and the test knows what receivers must hold.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "publish/shards.h"
#include "store/stream.h"
#include "tensor/random_model.h"

namespace xorbit::trainer_processes {

// The test starts a run again and again; each life publishes under an id of its own.
inline std::string IdOfLife(uint64_t life) { return "life-" + std::to_string(life); }

class Model {
 public:
  explicit Model(uint64_t seed) : seed_(seed), random_(seed), layout_(MakeLayout()), served_(random_, layout_) {}

  const Layout& layout() const { return layout_; }
  std::vector<ConstBytes> served() const { return served_.bytes(); }

  // The parts that each of `rank_count` ranks holds: vocabularies padded and cut by rows, tensor-parallel rows and columns,
  // FSDP ranges, an expert a rank in turn, and on all ranks what is small.
  std::vector<std::vector<Part>> Declare(uint32_t rank_count) const {
    std::vector<std::vector<Part>> declared(rank_count);
    for (uint32_t i = 0; i < layout_.tensors().size(); ++i) {
      const std::string& name = layout_.tensors()[i].name;
      for (uint32_t rank = 0; rank < rank_count; ++rank) {
        const std::optional<Part> part = PartOf(i, name, {rank, rank_count});
        if (part) declared[rank].push_back(*part);
      }
    }
    return declared;
  }

  // What `life` makes of `parent` and publishes as `version`.
  RandomTensors Step(const RandomTensors& parent, uint64_t life, uint64_t version) const {
    Random random(SplitMix64(seed_ ^ SplitMix64(life << 32 | version)));
    constexpr uint64_t kPerMille[] = {0, 2, 20, 200};
    RandomTensors next = parent;
    next.Mutate(random, layout_, kPerMille[Between(random, 0, 3)]);
    return next;
  }

  // What a committed version is: its parents' records lead back to the served checkpoint. An error where a record is not one of
  // this run's.
  Result<const RandomTensors*> At(Stream& stream, uint64_t version) {
    if (version == 0) return &served_;
    const auto known = states_.find(version);
    if (known != states_.end()) return &known->second;
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, stream.Record(version));
    if (!record || !record->committed()) return CorruptError("version " + std::to_string(version) + " is not committed");
    uint64_t life = 0;
    while (IdOfLife(life) != record->publication_id) {
      if (++life > 10'000) return CorruptError("version " + std::to_string(version) + " is of no life");
    }
    XORBIT_ASSIGN_OR_RETURN(const RandomTensors* parent, At(stream, *record->parent));
    return &states_.insert({version, Step(*parent, life, version)}).first->second;
  }

 private:
  static constexpr uint64_t kHidden = 48;  // 2, 3 and 4 ranks divide it
  static constexpr uint64_t kExperts = 5;

  Layout MakeLayout() {
    std::vector<TensorSpec> tensors;
    const auto add = [&](std::string name, Dtype dtype, std::vector<uint64_t> shape, bool frozen = false) {
      tensors.push_back({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .frozen = frozen});
    };
    const uint64_t vocabulary = Between(random_, 50, 130);
    add("embed_tokens.weight", Dtype::kBF16, {vocabulary, kHidden});
    add("lm_head.weight", Dtype::kBF16, {vocabulary, kHidden});
    add("rotary.inv_freq", Dtype::kF32, {kHidden / 2}, /*frozen=*/true);
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      add(layer + "norm.weight", Dtype::kF32, {kHidden});
      add(layer + "q_proj.weight", Dtype::kBF16, {2 * kHidden, kHidden});
      add(layer + "o_proj.weight", Dtype::kBF16, {kHidden, 2 * kHidden});
      add(layer + "router.weight", Dtype::kF32, {kExperts, kHidden});
      add(layer + "shared.flat", Dtype::kF32, {Between(random_, 300, 900)});
      add(layer + "w13.scale", Dtype::kU8, {kExperts, kHidden});
      for (uint64_t expert = 0; expert < kExperts; ++expert) {
        add(layer + "expert." + std::to_string(expert), Dtype::kBF16, {kHidden, 16});
      }
    }
    return Layout::Make(std::move(tensors)).value();
  }

  std::optional<Part> PartOf(uint32_t tensor_index, const std::string& name, ShardPlace place) const {
    const auto has = [&](std::string_view text) { return name.find(text) != std::string::npos; };
    if (layout_.tensors()[tensor_index].frozen) return std::nullopt;
    if (has("norm") || has("router")) return WholeTensor(layout_, tensor_index);
    if (has("expert.")) {
      return name.back() % place.rank_count == place.rank ? std::optional(WholeTensor(layout_, tensor_index)) : std::nullopt;
    }
    if (has("o_proj")) return ColumnShard(layout_, tensor_index, place).value();
    if (has("flat")) return FlatShard(layout_, tensor_index, place).value();
    if (has("embed")) {
      const uint64_t padded_rows = (layout_.tensors()[tensor_index].shape[0] / 64 + 1) * 64 * place.rank_count;
      return RowShard(layout_, tensor_index, place, padded_rows).value();
    }
    return RowShard(layout_, tensor_index, place).value();
  }

  uint64_t seed_;
  Random random_;
  Layout layout_;
  RandomTensors served_;
  std::map<uint64_t, RandomTensors> states_;  // by version
};

}  // namespace xorbit::trainer_processes
