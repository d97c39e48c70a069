// Kernels in the forms that GPUs run: in packs and with indices of 32 bits.
#include "device/element_pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "device/divisor.h"
#include "device/kernel.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

// In place: values = 2 * values + first[i].
struct TwiceAndFirst {
  const int32_t* first;
  float* values;

  template <typename Visit>
  void Elements(Visit visit) {
    visit(first), visit(values);
  }
  void operator()(int64_t i) const { values[i] = 2 * values[i] + static_cast<float>(first[i]); }
};

// values += the number of the row; with indices of 64 bits, and 0.5. `packed` counts the elements
// that run in packs.
struct AddRow {
  Divisor columns;
  float* values;
  int64_t extent = 0;
  int* packed = nullptr;

  int64_t Extent(int64_t count) const { return std::max(count, extent); }
  template <typename Visit>
  void Elements(Visit visit) {
    visit(values);
  }
  template <typename Index>
  void operator()(Index i) const {
    values[i] += static_cast<float>(i / columns) + (sizeof(Index) == 8 ? 0.5f : 0.0f);
  }
  template <typename Index>
  void Run(Index i, int at) const {
    if (packed != nullptr) ++*packed;
    values[at] += static_cast<float>(i / columns);
  }
};

TEST(ElementPack, RunsEveryElementOnceWhereverArraysBegin) {
  for (const int64_t begin : {0, 1, 4}) {
    for (const int64_t count : {0, 1, 3, 4, 5, 8, 31, 100}) {
      alignas(16) float values[112];
      alignas(16) int32_t first[112];
      std::iota(values, values + 112, 0.0f);
      std::iota(first, first + 112, 5);
      if (count > 0) RunLikeGpu(count, TwiceAndFirst{first + begin, values + begin});
      for (int64_t i = 0; i < 112; ++i) {
        const bool inside = i >= begin && i < begin + count;
        ASSERT_EQ(values[i], inside ? 3 * i + 5 : i) << i << " of " << begin << ", " << count;
      }
    }
  }
}

TEST(ElementPack, GivesKernelsTheNumbersOfTheirElements) {
  for (const int64_t begin : {0, 3}) {
    alignas(16) float values[64] = {};
    int packed = 0;
    RunLikeGpu(50, AddRow{7, values + begin, 0, &packed});
    for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(values[begin + i], i / 7);
    EXPECT_EQ(packed, begin == 0 ? 48 : 0);
  }
}

TEST(ElementPack, LeavesIndicesBeyond32BitsToTheWideForm) {
  alignas(16) float values[8] = {};
  RunLikeGpu(8, AddRow{2, values, int64_t{INT32_MAX} + 1});
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(values[i], i / 2 + 0.5f);
  std::fill_n(values, 8, 0.0f);
  RunLikeGpu(8, AddRow{2, values, INT32_MAX});
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(values[i], i / 2);
}

}  // namespace
}  // namespace millrace::test
