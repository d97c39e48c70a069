// Operations (channel_kernels.h) that add a bias per channel, with and without the work of a ReLU
// behind it, and their gradients. They work in place, too.
#ifndef MILLRACE_NN_LAYERS_ELEMENTWISE_BIAS_KERNELS_H_
#define MILLRACE_NN_LAYERS_ELEMENTWISE_BIAS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/channel_kernels.h"

namespace millrace::inline nn {

// Where the gradient of a number per channel goes.
struct ChannelGradient {
  float* diff;  // null: it is not wanted
  bool add;     // to what is there

  MILLRACE_HOST_DEVICE void Set(int64_t channel, double sum) const {
    if (diff == nullptr) return;
    diff[channel] = static_cast<float>(sum) + (add ? diff[channel] : 0.0f);
  }
};

// top = bottom + bias
struct BiasForward {
  const float* bottom;
  const float* bias;
  float* top;  // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    top[i] = bottom[i] + bias[channel];
  }
};

// bias_diff = sum(top_diff)
struct BiasGradient {
  const float* top_diff;
  ChannelGradient bias;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top_diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t) const { return {top_diff[i], 0}; }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    bias.Set(channel, sum);
  }
};

// values = ReLU(values + bias)
struct BiasReluForward {
  float slope;  // of the ReLU, at least 0
  const float* bias;
  float* values;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(values);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = values[i] + bias[channel];
    values[i] = x > 0 ? x : slope * x;
  }
};

// diff = the gradient by the ReLU's bottom, bias_diff = sum(diff)
struct BiasReluGradient {
  float slope;       // as above
  const float* top;  // its sign is the bottom's
  float* diff;       // by the top
  ChannelGradient bias;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top), visit(diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t) const {
    const float d = top[i] > 0 ? diff[i] : slope * diff[i];
    diff[i] = d;
    return {d, 0};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    bias.Set(channel, sum);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ELEMENTWISE_BIAS_KERNELS_H_
