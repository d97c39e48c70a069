// Runs operations on channels (channel_kernels.h). On the host in vectors, whatever the memory
// order: along a channel, or across the channels that lie next to each other. On a GPU, several
// teams of threads add up a channel.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_LAUNCH_H_
#define MILLRACE_NN_LAYERS_CHANNEL_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "base/simd.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/channel_kernels.h"

namespace millrace::inline nn {

// ---- The host's loops -------------------------------------------------------

// Values that are added in float before the sum is added to a double.
inline constexpr int64_t kChannelRun = 1024;

// `kInner`: view.inner as a constant, or 0.
template <int kInner, typename Op>
MILLRACE_HOST_DEVICE void MapInnerLoop(const ChannelView& view, const Op& op) {
  const int64_t inner = kInner ? kInner : view.inner;
  for (int64_t row = 0; row < view.outer * view.blocks; ++row) {
    const int64_t channel = row % view.blocks * inner;
    for (int64_t a = 0; a < view.area; ++a) {
      const int64_t begin = (row * view.area + a) * inner;
#pragma omp simd
      for (int64_t lane = 0; lane < inner; ++lane) op(begin + lane, channel + lane);
    }
  }
}

template <typename Op>
MILLRACE_HOST_DEVICE void MapAlongLoop(const ChannelView& view, const Op& op) {
  for (int64_t row = 0; row < view.outer * view.blocks; ++row) {
    const int64_t channel = row % view.blocks, begin = row * view.area, end = begin + view.area;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) op(i, channel);
  }
}

// `kLanes`: view.inner as a constant, or 0. Sums of the channels of one block at a time, in tiles
// of at most kTile lanes. Neighbouring rows are added to different sums, so that additions do not
// wait for each other.
template <int kLanes, typename Op>
MILLRACE_HOST_DEVICE void SumInnerLoop(const ChannelView& view, const Op& op) {
  constexpr int64_t kTile = kLanes ? kLanes : 64, kRows = 4;
  for (int64_t block = 0; block < view.blocks; ++block) {
    for (int64_t from = 0; from < view.inner; from += kTile) {
      const int64_t lanes = kLanes ? kLanes : std::min(kTile, view.inner - from);
      const int64_t channel = block * view.inner + from;
      double first[kTile] = {}, second[kTile] = {};
      for (int64_t o = 0; o < view.outer; ++o) {
        const int64_t begin = (o * view.blocks + block) * view.area * view.inner + from;
        for (int64_t run = 0; run < view.area; run += kChannelRun) {
          float a[kRows][kTile] = {}, b[kRows][kTile] = {};
          const int64_t end = std::min(run + kChannelRun, view.area);
          for (int64_t row = run; row < end; ++row) {
            const int64_t at = begin + row * view.inner, slot = row % kRows;
#pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane) {
              const ChannelSums term = op.Term(at + lane, channel + lane);
              a[slot][lane] += term.first;
              b[slot][lane] += term.second;
            }
          }
          for (int64_t slot = 0; slot < kRows; ++slot) {
            for (int64_t lane = 0; lane < lanes; ++lane) {
              first[lane] += double{a[slot][lane]};
              second[lane] += double{b[slot][lane]};
            }
          }
        }
      }
      for (int64_t lane = 0; lane < lanes; ++lane) {
        op.Finish(channel + lane, first[lane], second[lane]);
      }
    }
  }
}

template <typename Op>
MILLRACE_HOST_DEVICE void SumAlongLoop(const ChannelView& view, const Op& op) {
  for (int64_t channel = 0; channel < view.blocks; ++channel) {
    double first = 0, second = 0;
    for (int64_t o = 0; o < view.outer; ++o) {
      const int64_t row = (o * view.blocks + channel) * view.area;
      for (int64_t run = 0; run < view.area; run += kChannelRun) {
        const int64_t end = row + std::min(run + kChannelRun, view.area);
        float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
        for (int64_t i = row + run; i < end; ++i) {
          const ChannelSums term = op.Term(i, channel);
          a += term.first;
          b += term.second;
        }
        first += double{a};
        second += double{b};
      }
    }
    op.Finish(channel, first, second);
  }
}

// `own` is a copy, so that the compiler knows that its pointers and numbers do not change.
#define MILLRACE_CHANNEL_LOOPS(Set)                                    \
  template <typename Op>                                               \
  MILLRACE_KERNEL(Set)                                                 \
  void MapChannelsOnHost(Set, const ChannelView& view, const Op& op) { \
    const Op own = op;                                                 \
    if (view.inner == 1) return MapAlongLoop(view, own);               \
    if (view.inner == 16) return MapInnerLoop<16>(view, own);          \
    if (view.inner == 8) return MapInnerLoop<8>(view, own);            \
    MapInnerLoop<0>(view, own);                                        \
  }                                                                    \
  template <typename Op>                                               \
  MILLRACE_KERNEL(Set)                                                 \
  void SumChannelsOnHost(Set, const ChannelView& view, const Op& op) { \
    const Op own = op;                                                 \
    if (view.inner == 1) return SumAlongLoop(view, own);               \
    if (view.inner == 16) return SumInnerLoop<16>(view, own);          \
    if (view.inner == 8) return SumInnerLoop<8>(view, own);            \
    SumInnerLoop<0>(view, own);                                        \
  }
MILLRACE_CHANNEL_LOOPS(Sse)
MILLRACE_CHANNEL_LOOPS(Avx2)
MILLRACE_CHANNEL_LOOPS(Avx512)
#undef MILLRACE_CHANNEL_LOOPS

// Enqueues op(i, channel) for every value. The calls run in any order and at the same time.
template <typename Op>
void LaunchMap(Queue& queue, const ChannelView& view, const Op& op) {
  if (queue.device().type() == DeviceType::kCpu) {
    return VisitSimd(BestSimd(), [&](auto set) { MapChannelsOnHost(set, view, op); });
  }
  Launch(queue, view.count(), MapOfChannels<Op>{ChannelIndex(view), op});
}

// Reserves the memory that LaunchSums and LaunchStatistics need on the device of a layer. Call in
// Reshape, so that the passes do not allocate.
inline TwoSums* ChannelSumsMemory(const LayerContext& context) {
  if (context.device->type() == DeviceType::kCpu) return nullptr;
  return static_cast<TwoSums*>(context.scratch->Get(ChannelParts::kMaxBytes));
}

// Enqueues op.Finish(channel, ...) with the sums of op.Term over all values of each channel.
template <typename Op>
void LaunchSums(const LayerContext& context, const ChannelView& view, const Op& op) {
  Queue& queue = *context.queue;
  if (queue.device().type() == DeviceType::kCpu) {
    return VisitSimd(BestSimd(), [&](auto set) { SumChannelsOnHost(set, view, op); });
  }
  if (view.channels() == 0) return;
  const ChannelParts parts(view);
  SumsOfChannels<Op> kernel(view, parts, ChannelSumsMemory(context), op);
  Launch(queue, parts.groups() * parts.parts, kernel);
  if (parts.parts == 1) return;
  kernel.totals = true;
  Launch(queue, parts.channels, kernel);
}

// Enqueues op.mean[channel] = the mean of op.bottom over the channel's values, and
// op.Finish(channel,
// ...) with the sum of the squares of their differences from it: on a GPU in one pass over them.
template <ChannelStatistics Op>
void LaunchStatistics(const LayerContext& context, const ChannelView& view, const Op& op) {
  if (context.device->type() == DeviceType::kCpu) {
    LaunchSums(context, view, MeanOfChannels{view.per_channel(), op.bottom, op.mean, nullptr});
  }
  LaunchSums(context, view, op);
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_LAUNCH_H_
