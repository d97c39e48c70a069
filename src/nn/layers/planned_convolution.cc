#include "nn/layers/planned_convolution.h"

#include <utility>

#include "device/kernel.h"
#include "nn/layers/bias_kernels.h"

namespace millrace::inline nn {

PlannedConvolution::PlannedConvolution(const ConvolutionGeometry& geometry, bool reversed,
                                       const LayerContext& context,
                                       std::unique_ptr<ConvolutionPlan> plan)
    : geometry_(geometry), reversed_(reversed), context_(context), plan_(std::move(plan)) {
  Workspace();  // reserved now, so that the passes do not allocate
}

void PlannedConvolution::Forward(const std::vector<Param>& params, const Blobs& bottom,
                                 const Blobs& top) {
  const float* const weights = params[0].blob->data();
  for (size_t i = 0; i < bottom.size(); ++i) {
    const float* const in = bottom[i]->data();
    float* const out = top[i]->data();
    if (reversed_) {
      plan_->BackwardData(in, weights, out, Workspace());
    } else {
      plan_->Forward(in, weights, out, Workspace());
    }
    if (!geometry_.bias) continue;
    Launch(*context_.queue, top[i]->count(),
           AddBias{params[1].blob->count(), top[i]->count(geometry_.channel_axis + 1),
                   params[1].blob->data(), out});
  }
}

void PlannedConvolution::Backward(const std::vector<Param>& params, const Blobs& top,
                                  const std::vector<bool>& propagate_down, const Blobs& bottom) {
  const Param& weight = params[0];
  for (size_t i = 0; i < bottom.size(); ++i) {
    const float* const in = bottom[i]->data();
    const float* const out_diff = top[i]->diff();
    if (weight.wanted) {
      plan_->BackwardWeights(reversed_ ? out_diff : in, reversed_ ? in : out_diff,
                             *weight.has_gradient, weight.blob->diff(), Workspace());
      *weight.has_gradient = true;
    }
    if (geometry_.bias && params[1].wanted) {
      const Param& bias = params[1];
      const int64_t channels = bias.blob->count();
      Launch(*context_.queue, channels,
             BiasGradient{top[i]->count(0, geometry_.channel_axis), channels,
                          top[i]->count(geometry_.channel_axis + 1), *bias.has_gradient, out_diff,
                          bias.blob->diff()});
      *bias.has_gradient = true;
    }
    if (!propagate_down[i]) continue;
    float* const in_diff = bottom[i]->diff();
    if (reversed_) {
      plan_->Forward(out_diff, weight.blob->data(), in_diff, Workspace());
    } else {
      plan_->BackwardData(out_diff, weight.blob->data(), in_diff, Workspace());
    }
  }
}

}  // namespace millrace::inline nn
