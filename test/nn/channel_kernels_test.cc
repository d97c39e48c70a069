// Sums and statistics of channels as GPUs compute them, in parts, for every memory order.
#include "nn/layers/channel_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/norm/normalize_kernels.h"
#include "test/support/fake_gpu.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// What LaunchSums enqueues on a GPU.
template <typename Op>
void SumLikeGpu(const ChannelView& view, const Op& op) {
  const ChannelParts parts(view);
  ASSERT_LE(parts.parts > 1 ? parts.parts * parts.channels * sizeof(TwoSums) : 0,
            ChannelParts::kMaxBytes);
  std::vector<TwoSums> memory(ChannelParts::kMaxBytes / sizeof(TwoSums), {NAN, NAN});
  SumsOfChannels<Op> kernel(view, parts, memory.data(), op);
  RunLikeGpu(parts.groups() * parts.parts, kernel);
  if (parts.parts == 1) return;
  kernel.totals = true;
  RunLikeGpu(parts.channels, kernel);
}

// The channel of every value, found in order.
std::vector<int64_t> Channels(const ChannelView& view) {
  std::vector<int64_t> channels;
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t block = 0; block < view.blocks; ++block) {
      for (int64_t area = 0; area < view.area; ++area) {
        for (int64_t inner = 0; inner < view.inner; ++inner) {
          channels.push_back(block * view.inner + inner);
        }
      }
    }
  }
  return channels;
}

const ChannelView kViews[] = {
    {1, 1, 1, 1},     {3, 5, 7, 1},     {3, 5, 8, 1},     {64, 1, 4, 1},    {2, 3, 5000, 1},
    {1, 1, 70001, 1}, {50, 2, 1000, 1}, {1, 1, 40, 10},   {1, 1, 300, 100}, {2, 4, 9, 8},
    {1, 1, 999, 33},  {1, 2000, 2, 1},  {5, 2, 30000, 1},
};

class ChannelSumsTest : public testing::TestWithParam<size_t> {
 protected:
  ChannelSumsTest() : view_(kViews[GetParam()]), channels_(Channels(view_)) {}

  std::vector<float> Values(float mean, float deviation) {
    Rng rng(Seed(), {GetParam()});
    std::vector<float> values(view_.count() + 4);
    for (float& value : values) value = mean + deviation * rng.Gaussian();
    return values;
  }
  // An aligned address in `values`, or the one behind it.
  static float* At(std::vector<float>* values, bool aligned) {
    const auto address = reinterpret_cast<uintptr_t>(values->data()) / sizeof(float);
    const auto to_aligned = static_cast<int64_t>((4 - address % 4) % 4);
    return values->data() + (aligned ? to_aligned : (to_aligned + 1) % 4);
  }

  const ChannelView view_;
  const std::vector<int64_t> channels_;
};

TEST_P(ChannelSumsTest, AreThoseOfAllValuesOfAChannel) {
  for (const bool aligned : {true, false}) {
    std::vector<float> values = Values(0.5f, 1);
    const float* const x = At(&values, aligned);
    std::vector<double> expected(view_.channels());
    for (size_t i = 0; i < channels_.size(); ++i) expected[channels_[i]] += double{x[i]};
    std::vector<float> sums(view_.channels(), 100);
    for (const bool add : {false, true}) {
      SumLikeGpu(view_, BiasGradient{x, {sums.data(), add}});
      for (int64_t c = 0; c < view_.channels(); ++c) {
        const double once = expected[c], size = std::sqrt(double(view_.per_channel())) + 1;
        ASSERT_NEAR(sums[c], add ? 2 * once : once, 1e-6 * (std::abs(once) + size)) << c;
      }
    }
  }
}

TEST_P(ChannelSumsTest, WriteEveryValueOfTheReluBehindOnce) {
  for (const bool aligned : {true, false}) {
    std::vector<float> values = Values(0, 1), diffs(values.size(), 2);
    const float* const top = At(&values, aligned);
    float* const diff = At(&diffs, aligned);
    std::vector<double> expected(view_.channels());
    for (size_t i = 0; i < channels_.size(); ++i) expected[channels_[i]] += top[i] > 0 ? 2 : 0.5;
    std::vector<float> sums(view_.channels());
    SumLikeGpu(view_, BiasReluGradient{0.25f, top, diff, {sums.data(), false}});
    for (size_t i = 0; i < channels_.size(); ++i) ASSERT_EQ(diff[i], top[i] > 0 ? 2 : 0.5f) << i;
    for (int64_t c = 0; c < view_.channels(); ++c) ASSERT_EQ(sums[c], float(expected[c])) << c;
  }
}

// Also where the mean is much larger than the deviation: no digits may cancel.
TEST_P(ChannelSumsTest, HaveTheVarianceOfOnePass) {
  for (const float mean : {0.0f, 1.0f, 1000.0f, -30000.0f}) {
    for (const bool aligned : {true, false}) {
      SCOPED_TRACE(StrCat("mean ", mean, aligned ? " aligned" : ""));
      std::vector<float> values = Values(mean, 1);
      const float* const x = At(&values, aligned);
      const int64_t count = view_.per_channel(), channels = view_.channels();
      std::vector<double> means(channels), variances(channels);
      for (size_t i = 0; i < channels_.size(); ++i) {
        means[channels_[i]] += double{x[i]} / static_cast<double>(count);
      }
      for (size_t i = 0; i < channels_.size(); ++i) {
        const double centered = double{x[i]} - means[channels_[i]];
        variances[channels_[i]] += centered * centered / static_cast<double>(count);
      }
      std::vector<float> mean_of(channels), inverse(channels);
      SumLikeGpu(view_, VarianceOfChannels{count, 1e-5f, 0, x, mean_of.data(), inverse.data(),
                                           nullptr, nullptr});
      for (int64_t c = 0; c < channels; ++c) {
        ASSERT_NEAR(mean_of[c], means[c], 1e-7 * std::abs(means[c]) + 1e-6) << c;
        const double expected = 1 / std::sqrt(variances[c] + 1e-5);
        ASSERT_NEAR(inverse[c], expected, 1e-5 * expected) << c;
      }
    }
  }
}

TEST_P(ChannelSumsTest, MapsFindTheChannelOfEveryValue) {
  for (const bool aligned : {true, false}) {
    std::vector<float> values(view_.count() + 4, 1), bias(view_.channels());
    float* const x = At(&values, aligned);
    for (int64_t c = 0; c < view_.channels(); ++c) bias[c] = static_cast<float>(c);
    RunLikeGpu(view_.count(),
               MapOfChannels<BiasForward>{ChannelIndex(view_), BiasForward{x, bias.data(), x}});
    for (size_t i = 0; i < channels_.size(); ++i) ASSERT_EQ(x[i], 1 + channels_[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Views, ChannelSumsTest, testing::Range(size_t{0}, std::size(kViews)));

}  // namespace
}  // namespace millrace::test
