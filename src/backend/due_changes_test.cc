// Threads that read windows in any overlapping order must each find every window brought forward, once.
#include "backend/due_changes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

class DueChangesTest : public testing::Test {
 protected:
  DueChangesTest() : before_(random_, layout_), after_(random_, layout_) { after_.CopyFrom(before_); }

  // The next update, taken by several threads that begin in different windows and leave some out.
  void TakeAtOnce(uint64_t per_mille) {
    after_.Mutate(random_, layout_, per_mille);
    const std::vector<SegmentMap> maps = PlanOwners(layout_, 1, Split::kWhole).value().front();
    const EncodedUpdate update(*backend_, layout_, {maps}, before_, after_, CodecId::kSparse);
    const PayloadView& payload = update.payloads().front();
    const PayloadSegment& segment = payload.segments.front();
    const ConstBytes old_bytes = before_.bytes().front();
    const ConstBytes new_bytes = after_.bytes().front();
    Buffer image(old_bytes.begin(), old_bytes.end());
    DueChanges due(segment.map, backend_->Open(payload, segment).value(), image);
    const uint64_t window_count = WindowCountOf(segment.map.element_count());
    std::atomic<bool> all_right{true};
    {
      std::vector<std::jthread> readers;
      for (int i = 0; i < 4; ++i) {
        readers.emplace_back([&, random = Random(random_())]() mutable {
          for (int pass = 0; pass < 3; ++pass) {
            DueChanges::Cursor cursor(due);
            for (uint64_t w = Between(random, 0, window_count - 1); w < window_count; w += Between(random, 1, 3)) {
              const uint64_t first = w * kWindowElements * 2;
              const uint64_t byte_count = WindowElementsAt(segment.map.element_count(), w) * 2;
              const bool right = cursor.Take(w).ok() && std::equal(image.begin() + static_cast<ptrdiff_t>(first),
                                                                   image.begin() + static_cast<ptrdiff_t>(first + byte_count),
                                                                   new_bytes.begin() + static_cast<ptrdiff_t>(first));
              if (!right) all_right = false;
            }
          }
        });
      }
    }
    EXPECT_TRUE(all_right);
    ASSERT_TRUE(due.TakeAll(2).ok());
    ASSERT_TRUE(due.TakeAll(1).ok());
    EXPECT_TRUE(std::ranges::equal(image, new_bytes));
    before_.CopyFrom(after_);
  }

  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
  const Layout layout_ = Layout::Make({{.name = "w", .dtype = Dtype::kBF16, .shape = {70 * kWindowElements + 123}}}).value();
  RandomTensors before_;
  RandomTensors after_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(DueChangesTest, ThreadsTakeEachWindowOnce) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (const uint64_t per_mille : {0, 1, 10, 600}) {
    ASSERT_NO_FATAL_FAILURE(TakeAtOnce(per_mille)) << per_mille << " in a thousand";
  }
}

}  // namespace
}  // namespace xorbit
