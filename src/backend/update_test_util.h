// Updates between two states of a random model, encoded and parsed: what tests of receivers start from.
//
// No product code includes it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "payload/payload_writer.h"
#include "tensor/ownership.h"
#include "tensor/random_live_memory.h"
#include "tensor/random_model.h"

namespace xorbit {

// One delta's payloads, of as many owners as the split has.
class EncodedUpdate {
 public:
  EncodedUpdate(const Backend& backend, const Layout& layout, const std::vector<std::vector<SegmentMap>>& owners,
                const RandomTensors& before, const RandomTensors& after, CodecId codec) {
    const auto owner_count = static_cast<uint32_t>(owners.size());
    for (uint32_t i = 0; i < owner_count; ++i) {
      auto encoded = backend.EncodeDiff(layout, owners[i], {.bytes = InTensors(owners[i], before.bytes())},
                                        InTensors(owners[i], after.bytes()), codec, {});
      EXPECT_TRUE(encoded.ok()) << encoded.status().message();
      const Payload payload = WritePayload(layout, {codec, i, owner_count}, owners[i], std::move(encoded->segments), 1).value();
      change_ += payload.change;
      change_count_ += payload.change_count;
      files_.push_back(std::make_unique<Buffer>(payload.head));
      for (const Buffer& piece : payload.body) AppendBytes(*files_.back(), piece);
      payloads_.push_back(ParsePayload(layout, *files_.back()).value());
    }
  }

  std::span<const PayloadView> payloads() const { return payloads_; }
  const Buffer& file(size_t owner) const { return *files_[owner]; }
  StateDigest change() const { return change_; }
  uint64_t change_count() const { return change_count_; }

  // What PrepareReport::sums of all ranks must add up to.
  std::vector<std::vector<RecordSums>> RecordSumsOf(const Backend& backend) const {
    std::vector<std::vector<RecordSums>> all(payloads_.size());
    for (size_t p = 0; p < payloads_.size(); ++p) {
      for (const PayloadSegment& segment : payloads_[p].segments) {
        const auto decoder = backend.Open(payloads_[p], segment).value();
        for (uint64_t r = 0; r < decoder->record_count(); ++r) {
          all[p].push_back({decoder->info(r).before, decoder->info(r).after});
        }
      }
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Buffer>> files_;
  std::vector<PayloadView> payloads_;
  StateDigest change_;
  uint64_t change_count_ = 0;
};

inline std::vector<std::vector<SegmentMap>> RandomOwners(Random& random, const Layout& layout) {
  const Split splits[] = {Split::kWhole, Split::kRange, Split::kColumn};
  return PlanOwners(layout, static_cast<uint32_t>(Between(random, 1, 4)), splits[Between(random, 0, 2)]).value();
}

// A model and one update of it, of any density.
struct RandomUpdate {
  RandomUpdate(Random& random, const Backend& backend, CodecId codec, uint64_t max_elements)
      : layout(RandomLayout(random, 10, max_elements)), before(random, layout), after(random, layout) {
    after.CopyFrom(before);
    const uint64_t densities[] = {0, 1, 10, 200, 700, 1000};
    after.Mutate(random, layout, densities[Between(random, 0, 5)]);
    encoded = std::make_unique<EncodedUpdate>(backend, layout, RandomOwners(random, layout), before, after, codec);
  }

  Layout layout;
  RandomTensors before;
  RandomTensors after;
  std::unique_ptr<EncodedUpdate> encoded;
};

// The memories of a cohort's ranks.
struct RandomCohort {
  std::vector<std::unique_ptr<RandomLiveMemory>> ranks;

  RandomCohort(Random& random, const Layout& layout, size_t rank_count) {
    LiveMapSpec whole = RandomLiveMap(random, layout).spec();
    PlaceShadows(random, layout, &whole);
    for (LiveMapSpec& spec : DealOut(random, whole, rank_count)) {
      auto map = LiveMap::Make(layout, std::move(spec));
      EXPECT_TRUE(map.ok()) << map.status().message();
      ranks.push_back(std::make_unique<RandomLiveMemory>(random, layout, std::move(map).value()));
    }
  }
  void Fill(const RandomTensors& tensors) {
    for (auto& rank : ranks) rank->Fill(tensors.bytes());
  }
  std::vector<Buffer> Snapshot() const {
    std::vector<Buffer> all;
    for (const auto& rank : ranks) all.push_back(rank->Snapshot());
    return all;
  }
};

}  // namespace xorbit
