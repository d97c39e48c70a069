#include "nn/layers/convolution/planned_convolution.h"

#include <utility>

#include "nn/layers/channel_launch.h"

namespace millrace::inline nn {

PlannedConvolution::PlannedConvolution(const ConvolutionGeometry& geometry, bool reversed,
                                       const LayerContext& context,
                                       std::unique_ptr<ConvolutionPlan> plan)
    : geometry_(geometry), reversed_(reversed), context_(context), plan_(std::move(plan)) {
  // Reserved now, so that the passes do not allocate.
  Workspace();
  ChannelSumsMemory(context_);
}

ChannelView PlannedConvolution::ViewOf(const Blob& top) const {
  const int axis = geometry_.channel_axis;
  return ChannelView::Plain(top.count(0, axis), top.dim(axis), top.count(axis + 1));
}

void PlannedConvolution::Forward(const std::vector<Param>& params, const Blobs& bottom,
                                 const Blobs& top, const BiasedTop& output) {
  const float* const weights = params[0].blob->data();
  for (size_t i = 0; i < bottom.size(); ++i) {
    const float* const in = bottom[i]->data();
    float* const out = top[i]->data();
    plan_->Renew(in);
    if (reversed_) {
      plan_->BackwardData(in, weights, out, Workspace());
    } else {
      plan_->Forward(in, weights, out, Workspace());
    }
    output.Forward(context_, ViewOf(*top[i]), geometry_.bias ? params[1].blob->data() : nullptr,
                   out);
  }
}

void PlannedConvolution::Backward(const std::vector<Param>& params, const Blobs& top,
                                  const std::vector<bool>& propagate_down, const Blobs& bottom,
                                  const BiasedTop& output) {
  const Param& weight = params[0];
  for (size_t i = 0; i < bottom.size(); ++i) {
    const float* const in = bottom[i]->data();
    float* const out_diff = top[i]->diff();
    ChannelGradient bias{nullptr, false};
    if (geometry_.bias && params[1].wanted) {
      bias = {params[1].blob->diff(), *params[1].has_gradient};
      *params[1].has_gradient = true;
    }
    output.Backward(context_, ViewOf(*top[i]), top[i]->data(), out_diff, bias);
    plan_->Renew(out_diff);
    if (weight.wanted) {
      plan_->BackwardWeights(reversed_ ? out_diff : in, reversed_ ? in : out_diff,
                             *weight.has_gradient, weight.blob->diff(), Workspace());
      *weight.has_gradient = true;
    }
    // Next to the other pass that reads the gradient: nothing may use the workspace between the
    // two.
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
