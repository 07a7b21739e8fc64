// A stream of a random model's versions, and engines that hold it in random live memory and watch what they are made to serve.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/backend.h"
#include "delta/oracle.h"
#include "receive/engine.h"
#include "store/stream.h"
#include "store/testing/put_back.h"
#include "store/testing/stream_info_of.h"
#include "tensor/ownership.h"
#include "tensor/random_live_memory.h"

namespace xorbit {

// The states are all known from the start; Publish() makes them versions.
class LiveStream {
 public:
  LiveStream(Random& random, const Backend& backend, ObjectStore& store, uint64_t version_count, uint64_t max_elements = 2'000)
      : LiveStream(random, backend, store, version_count, RandomLayout(random, 8, max_elements)) {}
  LiveStream(Random& random, const Backend& backend, ObjectStore& store, uint64_t version_count, Layout layout,
             const std::vector<uint64_t>& densities = {0, 5, 20, 100, 500})
      : random_(random), backend_(backend), layout_(std::move(layout)) {
    states_.emplace_back(random, layout_);
    while (states_.size() < version_count + 1) {
      RandomTensors next = states_.back();
      next.Mutate(random, layout_, densities[Between(random, 0, densities.size() - 1)]);
      states_.push_back(std::move(next));
    }
    const StreamInfo info = StreamInfoOf(layout_, states_[0].bytes(), "run");
    stream_ = std::make_unique<Stream>(Stream::Create(store, info, layout_).value());
  }

  Stream& stream() { return *stream_; }
  const Layout& layout() const { return layout_; }
  uint64_t version_count() const { return states_.size() - 1; }
  const RandomTensors& state(uint64_t version) const { return states_[version]; }
  const std::vector<RandomTensors>& states() const { return states_; }
  StateDigest DigestOf(uint64_t version) const { return OracleDigest(layout_, states_[version].bytes()); }

  // Of what is published from now on.
  void SetCodec(CodecId codec, const EncodeOptions& options = {}) {
    codec_ = codec;
    encode_ = options;
  }
  // The next version, from the one before.
  void Publish() {
    const uint64_t version = published_ + 1;
    const PublicationPlace place{version - 1, version, "t"};
    Put(place);
    const auto manifest = trainer().Seal(place);
    ASSERT_TRUE(manifest.ok()) << manifest.status().message();
    ASSERT_TRUE(trainer().Decide(CommitRecord(*manifest)).ok());
    published_ = version;
  }
  void PublishAll() {
    while (published_ < version_count()) Publish();
  }
  // The store is put back to an older copy, and a trainer that knows nothing of the later versions makes others of them:
  // Publish().
  void PutBackTo(uint64_t version) {
    PutBack(stream_->store(), stream_->info().stream_id, version);
    for (uint64_t later = version + 1; later < states_.size(); ++later) {
      RandomTensors next = states_[later - 1];
      next.Mutate(random_, layout_, 500);
      states_[later] = std::move(next);
    }
    trainer_ = std::make_unique<Stream>(Stream::Open(stream_->store(), stream_->info().stream_id).value());
    published_ = version;
  }
  // Another delta between two versions.
  void PublishFold(uint64_t from, uint64_t to) {
    const PublicationPlace place{from, to, std::string(kFoldPublicationId)};
    Put(place);
    ASSERT_TRUE(trainer().Seal(place).ok());
  }

 private:
  Stream& trainer() { return trainer_ == nullptr ? *stream_ : *trainer_; }
  // Payloads and receipts of random owners.
  void Put(const PublicationPlace& place) {
    const auto owner_count = static_cast<uint32_t>(Between(random_, 1, 3));
    const auto owners = PlanOwners(layout_, owner_count, random_() % 2 == 0 ? Split::kRange : Split::kColumn).value();
    const std::vector<ConstBytes> before = states_[place.base_version].bytes();
    const std::vector<ConstBytes> after = states_[place.target_version].bytes();
    for (uint32_t i = 0; i < owner_count; ++i) {
      auto encoded = backend_.EncodeDiff(layout_, owners[i], {.bytes = InTensors(owners[i], before)},
                                         InTensors(owners[i], after), codec_, encode_);
      ASSERT_TRUE(encoded.ok()) << encoded.status().message();
      const auto payload = WritePayload(layout_, {codec_, i, owner_count}, owners[i], std::move(encoded->segments), 1);
      ASSERT_TRUE(payload.ok()) << payload.status().message();
      Receipt receipt;
      receipt.place = place;
      receipt.owner_index = i;
      receipt.owner_count = owner_count;
      receipt.codec = codec_;
      receipt.owner = ManifestOwnerOf(*payload);
      receipt.base_part = encoded->base;
      std::vector<const SegmentMap*> segments;
      for (const SegmentMap& map : owners[i]) segments.push_back(&map);
      receipt.parts_sha256 = PartsDigest(layout_, segments);
      ASSERT_TRUE(trainer().PutPayload(place, *payload).ok());
      const Status put = trainer().PutReceipt(receipt);
      ASSERT_TRUE(put.ok()) << put.message();
    }
  }

  Random& random_;
  const Backend& backend_;
  Layout layout_;
  std::vector<RandomTensors> states_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> trainer_;  // that publishes, if it is another than the receivers'
  uint64_t published_ = 0;
  CodecId codec_ = CodecId::kSparse;
  EncodeOptions encode_;
};

// Maps of the ranks of a cohort, with shadows, derived tensors and replicas.
inline std::vector<LiveMap> RandomRanks(Random& random, const Layout& layout, size_t rank_count) {
  LiveMapSpec whole = RandomLiveMap(random, layout).spec();
  PlaceShadows(random, layout, &whole);
  std::vector<LiveMap> maps;
  for (LiveMapSpec& spec : DealOut(random, whole, rank_count)) {
    for (const Piece& piece : spec.pieces) {
      if (random() % 6 == 0) spec.derived.push_back({piece.tensor_index, random() % 2 == 0 ? "fuse" : "quantise"});
    }
    std::sort(spec.derived.begin(), spec.derived.end(), [](const DerivedBinding& a, const DerivedBinding& b) {
      return std::tie(a.tensor_index, a.callback) < std::tie(b.tensor_index, b.callback);
    });
    spec.derived.erase(std::unique(spec.derived.begin(), spec.derived.end()), spec.derived.end());
    maps.push_back(LiveMap::Make(layout, std::move(spec)).value());
  }
  return maps;
}

// One rank's engine. It knows what its memory must hold in every version, and compares all of it whenever it is to serve.
class WatchingEngine final : public Engine {
 public:
  // It stands still, and holds states[version].
  WatchingEngine(Random& random, const Layout& layout, const std::vector<RandomTensors>& states, LiveMap map, uint64_t version)
      : live_(random, layout, std::move(map)), memory_(live_.memory()) {
    for (const RandomTensors& state : states) {
      live_.Fill(state.bytes());
      expected_.push_back(live_.Snapshot());
    }
    live_.Fill(states[version].bytes());
  }
  WatchingEngine(Random& random, const LiveStream& stream, LiveMap map, uint64_t version)
      : WatchingEngine(random, stream.layout(), stream.states(), std::move(map), version) {}
  // Its weights lie in memory that outlives it, and are what they are there.
  WatchingEngine(Random& random, const LiveStream& stream, const LiveMap& map, MutableBytes storage)
      : WatchingEngine(random, stream, map, storage, Random(random)) {}

  // A new life: the engine has loaded the checkpoint again, and does not serve yet.
  void Reload(const RandomTensors& checkpoint) {
    serves_ = false;
    live_.Fill(checkpoint.bytes());
  }
  // The same where its weights outlive it, with the gaps between them.
  void Load(uint64_t version) { std::ranges::copy(expected_[version], live_.bytes().begin()); }
  // A new life of whoever applies: the engine stands still.
  void Stop() { serves_ = false; }
  LiveMap& map() { return live_.map(); }
  MutableBytes bytes() const { return live_.bytes(); }
  const LiveMemory& memory() const { return memory_; }
  bool Holds(uint64_t version) const { return std::ranges::equal(live_.bytes(), expected_[version]); }
  bool serves() const { return serves_; }
  uint64_t served_version() const { return served_version_; }
  uint64_t wrong_count() const { return wrong_count_; }
  // A byte that differs between two versions; of a kept copy, which counts, if there is one.
  uint8_t* ChangingByte(uint64_t from, uint64_t to) {
    for (size_t i = expected_[from].size(); i-- > 0;) {
      if (expected_[from][i] != expected_[to][i]) return live_.bytes().data() + i;
    }
    return nullptr;
  }

  // Called first by each of Pause, Refresh and Resume, with its name; an error is the call's.
  std::function<Status(const std::string& call)> on_call;
  // Called whenever it begins to serve a version.
  std::function<void(uint64_t version)> on_serve;

  Status Pause(Deadline /*deadline*/) override {
    serves_ = false;
    return on_call ? on_call("pause") : Status();
  }
  Status Refresh(const std::vector<std::string>& callbacks, Deadline /*deadline*/) override {
    EXPECT_FALSE(serves_);
    EXPECT_FALSE(callbacks.empty());
    return on_call ? on_call("refresh") : Status();
  }
  Status Resume(uint64_t version, Deadline /*deadline*/) override {
    if (on_call) XORBIT_RETURN_IF_ERROR(on_call("resume"));
    if (!Holds(version)) ++wrong_count_;
    serves_ = true;
    served_version_ = version;
    if (on_serve) on_serve(version);
    return {};
  }

 private:
  // `same` makes a twin whose bytes are at the same places.
  WatchingEngine(Random& random, const LiveStream& stream, const LiveMap& map, MutableBytes storage, Random same)
      : live_(random, stream.layout(), map, storage), memory_(live_.memory()) {
    RandomLiveMemory twin(same, stream.layout(), map);
    for (const RandomTensors& state : stream.states()) {
      twin.Fill(state.bytes());
      expected_.push_back(twin.Snapshot());
    }
  }

  RandomLiveMemory live_;
  LiveMemory memory_;
  std::vector<Buffer> expected_;  // by version
  bool serves_ = false;
  uint64_t served_version_ = 0;
  uint64_t wrong_count_ = 0;
};

}  // namespace xorbit
