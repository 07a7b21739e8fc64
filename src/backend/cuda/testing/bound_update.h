// A random update of a model with tied names, and a live map with shadows, aliases and kept copies for it: what the tests of
// bindings apply, on an emulated warp and on a GPU.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/testing/random_update.h"
#include "tensor/random_live_memory.h"

namespace xorbit::cuda::testing {

struct BoundUpdate {
  RandomUpdate update;
  LiveMapSpec spec;  // of one rank that holds everything
  // A tied tensor whose change is not its other name's, if it was to be torn.
  std::optional<uint32_t> torn;
};

inline constexpr const char* kTwinPrefix = "tied.";

// A random layout in which about every second tensor has a twin.
inline Result<Layout> MakeTwinLayout(Random& random, uint64_t max_elements) {
  const Layout single = RandomLayout(random, 6, max_elements);
  std::vector<TensorSpec> tensors = single.tensors();
  for (const TensorSpec& tensor : single.tensors()) {
    if (Between(random, 0, 1) == 0) continue;
    tensors.push_back(tensor);
    tensors.back().name = kTwinPrefix + tensor.name;
  }
  return Layout::Make(std::move(tensors));
}

// Pairs of a tensor and its twin.
inline std::vector<std::pair<uint32_t, uint32_t>> TwinsOf(const Layout& layout) {
  std::vector<std::pair<uint32_t, uint32_t>> twins;
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    for (uint32_t j = 0; j < layout.tensors().size(); ++j) {
      if (layout.tensors()[j].name == kTwinPrefix + layout.tensors()[i].name) twins.emplace_back(i, j);
    }
  }
  return twins;
}

// Makes some floating-point elements that change infinite or not a number on one side.
inline void SprinkleNans(Random& random, const Layout& layout, RandomUpdate* update) {
  const auto before = update->before->mutable_bytes();
  const auto after = update->after->mutable_bytes();
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const Dtype dtype = layout.tensors()[i].dtype;
    if (dtype != Dtype::kBF16 && dtype != Dtype::kF32) continue;
    const uint64_t unit_bytes = UnitBytesOf(dtype);
    for (uint64_t at = 0; at < before[i].size(); at += unit_bytes) {
      if (std::equal(before[i].begin() + at, before[i].begin() + at + unit_bytes, after[i].begin() + at)) continue;
      if (Between(random, 0, 3) != 0) continue;
      const MutableBytes side = (Between(random, 0, 1) == 0 ? before : after)[i];
      side[at + unit_bytes - 1] |= 0x7f;
      side[at + unit_bytes - 2] |= 0x80;
    }
  }
}

// Makes names of the map aliases and tensors without a place of their own, some of which only a callback needs.
inline void BindRandomly(Random& random, const Layout& layout, LiveMapSpec* spec) {
  const auto has_place = [&](uint32_t tensor_index) {
    return std::ranges::any_of(spec->pieces, [&](const Piece& piece) { return piece.tensor_index == tensor_index; }) ||
           std::ranges::any_of(spec->shadows, [&](const ShadowBinding& one) { return one.piece.tensor_index == tensor_index; });
  };
  const auto lift = [&](uint32_t tensor_index) {
    std::erase_if(spec->pieces, [&](const Piece& piece) { return piece.tensor_index == tensor_index; });
    std::erase_if(spec->shadows, [&](const ShadowBinding& one) { return one.piece.tensor_index == tensor_index; });
  };
  std::vector<bool> is_tied(layout.tensors().size());
  for (auto [alias, of] : TwinsOf(layout)) {
    if (Between(random, 0, 3) == 0 || layout.tensors()[of].byte_count == 0) continue;
    if (Between(random, 0, 1) == 0) std::swap(alias, of);
    if (!has_place(of)) continue;
    lift(alias);
    spec->aliases.push_back({.tensor_index = alias, .of_tensor_index = of});
    is_tied[alias] = is_tied[of] = true;
  }
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    if (Between(random, 0, 7) != 0) continue;
    if (!is_tied[i] && Between(random, 0, 1) == 0) lift(i);
    spec->derived.push_back({.tensor_index = i, .callback = "refresh"});
  }
}

// tears: one name of a tied pair changes otherwise, if there is a pair.
inline Result<BoundUpdate> MakeBoundUpdate(const Backend& backend, uint64_t seed, uint64_t max_elements, bool tears = false,
                                           CodecId codec = CodecId::kSparse, const EncodeOptions& options = {}) {
  Random random(seed);
  BoundUpdate bound;
  RandomUpdate& update = bound.update;
  XORBIT_ASSIGN_OR_RETURN(update.layout, MakeTwinLayout(random, max_elements));
  const Layout& layout = update.layout;
  update.before = std::make_unique<RandomTensors>(random, layout);
  update.after = std::make_unique<RandomTensors>(random, layout);
  update.after->CopyFrom(*update.before);
  update.after->Mutate(random, layout, kDensities[seed % kDensities.size()]);
  SprinkleNans(random, layout, &update);
  for (const auto& [one, other] : TwinsOf(layout)) {
    for (RandomTensors* tensors : {update.before.get(), update.after.get()}) {
      const auto bytes = tensors->mutable_bytes();
      std::ranges::copy(bytes[one], bytes[other].begin());
    }
  }
  bound.spec = RandomLiveMap(random, layout).spec();
  PlaceShadows(random, layout, &bound.spec);
  BindRandomly(random, layout, &bound.spec);
  for (const AliasBinding& alias : bound.spec.aliases) {
    if (!tears || bound.torn || layout.tensors()[alias.tensor_index].frozen) continue;
    bound.torn = alias.tensor_index;
    const MutableBytes bytes = update.after->mutable_bytes()[alias.tensor_index];
    bytes[Between(random, 0, bytes.size() - 1)] ^= 1;
  }
  const auto owner_count = static_cast<uint32_t>(Between(random, 1, 4));
  XORBIT_RETURN_IF_ERROR(EncodeRandomUpdate(backend, owner_count, kSplits[seed % kSplits.size()], &update, codec, options));
  return bound;
}

// One of two ranks among which the map is dealt out, with the aliases of what it holds.
inline LiveMapSpec OneRankOf(Random& random, const LiveMapSpec& whole) {
  LiveMapSpec rank = std::move(DealOut(random, whole, 2).front());
  std::erase_if(rank.aliases, [&](const AliasBinding& alias) {
    return std::ranges::none_of(rank.pieces, [&](const Piece& piece) { return piece.tensor_index == alias.of_tensor_index; }) &&
           std::ranges::none_of(rank.shadows,
                                [&](const ShadowBinding& one) { return one.piece.tensor_index == alias.of_tensor_index; });
  });
  return rank;
}

}  // namespace xorbit::cuda::testing
