#include "weights/copy_weights.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace millrace {
namespace {

// A weight that only the program has changed becomes exactly its value, where a sum might round;
// one that others have changed gets both changes. The counts cover whole vectors and a remainder.
TEST(MergeCopy, AddsWhatTheProgramHasGained) {
  for (const int64_t count : {0, 1, 3, 4, 7, 64, 65}) {
    std::vector<float> shared(count), copy(count), base(count), expected(count);
    for (int64_t i = 0; i < count; ++i) {
      base[i] = 1e8f + static_cast<float>(64 * i);
      copy[i] = i % 3 == 0 ? 0.1f : base[i];
      shared[i] = base[i] + (i % 2 == 0 ? 0.0f : 8.0f);
      expected[i] = i % 2 == 0 ? copy[i] : shared[i] + (copy[i] - base[i]);
    }
    MergeCopy(count, shared.data(), copy.data(), base.data());
    EXPECT_EQ(shared, expected) << count;
    EXPECT_EQ(copy, expected) << count;
    EXPECT_EQ(base, expected) << count;
  }
}

}  // namespace
}  // namespace millrace
