// Kernels (device/kernel.h) over values that belong to channels (channel_view.h), for layers with
// numbers per channel: scales, means. A layer defines operations, structs of numbers and pointers
// to memory that the device can access, which are run for every value:
//
//   template <typename Visit> void Elements(Visit visit)     as of a kernel: the arrays of values
//   template <typename Visit> void Pointers(Visit visit)     as of a kernel, with those of Elements
//   void operator()(int64_t i, int64_t channel) const        for LaunchMap: value i in memory
//   ChannelSums Term(int64_t i, int64_t channel) const       for LaunchSums: what value i adds
//   void Finish(int64_t channel, double first, double second) const
//                                                            for LaunchSums: takes a channel's sums
//
// LaunchStatistics also computes the `mean` of the values `bottom`, two pointers of the operation,
// which has
//   static constexpr bool kStatistics = true
// and whose Term is the square of the difference from the mean.
//
// channel_launch.h launches them.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_KERNELS_H_
#define MILLRACE_NN_LAYERS_CHANNEL_KERNELS_H_

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"
#include "device/kernel.h"
#include "nn/layers/channel_view.h"

namespace millrace::inline nn {

struct ChannelSums {
  float first, second;
};

// An operation for LaunchSums: means.
struct MeanOfChannels {
  int64_t count;  // values of a channel
  const float* bottom;
  float* mean;
  float* inverse;  // receives 1; may be null

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t) const { return {bottom[i], 0}; }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    mean[channel] = static_cast<float>(sum / static_cast<double>(count));
    if (inverse != nullptr) inverse[channel] = 1;
  }
};

// Finds channels and values, for kernels. Indices are int32_t or int64_t.
struct ChannelIndex {
  Divisor row, blocks, area, inner;  // row: values of a block

  explicit ChannelIndex(const ChannelView& view)
      : row(view.area * view.inner), blocks(view.blocks), area(view.area), inner(view.inner) {}

  // The channel of the value at index i in memory.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index ChannelOf(Index i) const {
    return i / row % blocks * inner + i % inner;
  }
  // The index in memory of value k of a channel, k < view.per_channel().
  template <typename Index>
  MILLRACE_HOST_DEVICE Index At(Index channel, Index k) const {
    const Index place = (k / area * blocks + channel / inner) * area + k % area;
    return place * inner + channel % inner;
  }
};

// An element is a value.
template <typename Op>
struct MapOfChannels {
  ChannelIndex view;
  Op op;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    op.Elements(visit);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    op(i, view.ChannelOf(i));
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void Run(Index i, int at) const {
    op(at, view.ChannelOf(i));
  }
};

// An operation that LaunchStatistics takes.
template <typename Op>
concept ChannelStatistics = requires {
  requires Op::kStatistics;
};

// How the sums of channels are divided among teams: each adds up a part of the values of some
// channels that lie next to each other. The division depends on the shape only, and with it the
// order of additions.
struct ChannelParts {
  static constexpr int64_t kMaxLanes = 32;  // channels of a team
  // Enough teams to fill any GPU, and enough values for each.
  static constexpr int64_t kTeams = 1024, kMinValues = 4096;
  // Memory for the sums of all parts.
  static constexpr size_t kMaxBytes = kTeams * kMaxLanes * sizeof(TwoSums);

  int64_t channels, per_channel;
  int lane_bits = 0;
  int64_t lanes = 1;  // 2^lane_bits
  int64_t values;     // of a channel in a part, a multiple of kPack
  int64_t parts;      // of a channel

  explicit ChannelParts(const ChannelView& view)
      : channels(view.channels()), per_channel(view.per_channel()) {
    while (lanes < kMaxLanes && lanes < view.inner) lanes = int64_t{1} << ++lane_bits;
    const int64_t most = (per_channel * lanes + kMinValues - 1) / kMinValues;
    const int64_t wanted = std::max<int64_t>(1, std::min(kTeams / groups(), most));
    values = ((per_channel + wanted - 1) / wanted + kPack - 1) / kPack * kPack;
    parts = values == 0 ? 1 : (per_channel + values - 1) / values;
  }

  // Groups of `lanes` channels.
  int64_t groups() const { return (channels + lanes - 1) / lanes; }
};

// A row is a part of a group of channels. If there are several parts, a second launch, with
// `totals`, adds up the sums of a channel in each row.
template <typename Op>
struct SumsOfChannels {
  ChannelIndex view;
  int64_t channels, per_channel, count;
  int lane_bits;  // as in ChannelParts
  int64_t values;
  Divisor parts;
  bool packs;  // values of a channel lie in packs
  bool totals = false;
  TwoSums* sums;  // [parts][channels]; null: there is one part
  Op op;

  // `sums`: see above, ChannelParts::kMaxBytes.
  SumsOfChannels(const ChannelView& of, const ChannelParts& divided, TwoSums* memory,
                 const Op& operation)
      : view(of),
        channels(divided.channels),
        per_channel(divided.per_channel),
        count(of.count()),
        lane_bits(divided.lane_bits),
        values(divided.values),
        parts(divided.parts),
        packs(of.inner == 1 && of.area % kPack == 0 && HasAlignedElements(operation)),
        sums(divided.parts > 1 ? memory : nullptr),
        op(operation) {}

  int64_t Extent(int64_t) const { return count; }
  template <typename Team, typename Index>
  MILLRACE_HOST_DEVICE void operator()(Team& team, Index row) const {
    const auto all = static_cast<Index>(channels);
    if (totals) {
      return team.SumColumns(
          0, static_cast<Index>(parts),
          [&](uint32_t, Index part, TwoSums* own) {
            own->first += sums[part * all + row].first;
            own->second += sums[part * all + row].second;
          },
          [&](uint32_t, const TwoSums& sum) { Finish(row, sum); });
    }
    const Index part = row % parts, begin = part * static_cast<Index>(values);
    const Index from = row / parts << lane_bits;
    const auto rest = static_cast<Index>(per_channel) - begin, most = static_cast<Index>(values);
    const Index n = rest < most ? rest : most;
    const auto take = [&](uint32_t lane, const TwoSums& sum) {
      const Index channel = from + static_cast<Index>(lane);
      if (channel >= all) return;
      if (sums == nullptr) return Finish(channel, sum);
      sums[part * all + channel] = sum;
    };
    if (packs) {
      return team.SumColumns(
          0, n / kPack,
          [&](uint32_t, Index k, TwoSums* own) {
            AddPack(view.At(from, begin + kPack * k), from, own);
          },
          take);
    }
    team.SumColumns(
        lane_bits, n,
        [&](uint32_t lane, Index k, TwoSums* own) {
          const Index channel = from + static_cast<Index>(lane);
          if (channel < all) Add(view.At(channel, begin + k), channel, own);
        },
        take);
  }

 private:
  MILLRACE_HOST_DEVICE void Add(int64_t i, int64_t channel, TwoSums* own) const {
    if constexpr (ChannelStatistics<Op>) {
      const double value = op.bottom[i];
      own->first += value;
      own->second += value * value;
    } else {
      const ChannelSums term = op.Term(i, channel);
      own->first += double{term.first};
      own->second += double{term.second};
    }
  }
  MILLRACE_HOST_DEVICE void AddPack(int64_t i, int64_t channel, TwoSums* own) const {
    WithPack(op, i, [&](const Op& pack) {
      if constexpr (ChannelStatistics<Op>) {
        // Differences from the first of the four, and squares of differences from their mean, lose
        // no digits that count; what is large is squared as a double.
        const float* const x = pack.bottom;
        const float b = x[1] - x[0], c = x[2] - x[0], d = x[3] - x[0];
        const float beyond = (b + c) + d, mean = beyond / kPack;
        const float squares = (mean * mean + (b - mean) * (b - mean)) +
                              ((c - mean) * (c - mean) + (d - mean) * (d - mean));
        const double sum = kPack * double{x[0]} + double{beyond};
        own->first += sum;
        own->second += double{squares} + sum * sum / kPack;
      } else {
        ChannelSums sum{0, 0};
        for (int at = 0; at < kPack; ++at) {
          const ChannelSums term = pack.Term(at, channel);
          sum.first += term.first;
          sum.second += term.second;
        }
        own->first += double{sum.first};
        own->second += double{sum.second};
      }
    });
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, const TwoSums& sum) const {
    if constexpr (ChannelStatistics<Op>) {
      const double mean = sum.first / static_cast<double>(per_channel);
      const double squares = sum.second - sum.first * mean;
      op.mean[channel] = static_cast<float>(mean);
      op.Finish(channel, squares < 0 ? 0 : squares, 0);
    } else {
      op.Finish(channel, sum.first, sum.second);
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_KERNELS_H_
