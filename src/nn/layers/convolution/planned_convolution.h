// The passes of a Convolution or Deconvolution layer on blobs in plain order, by a plan
// (convolution_geometry.h), on any device.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_PLANNED_CONVOLUTION_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_PLANNED_CONVOLUTION_H_

#include <memory>
#include <vector>

#include "millrace/layer.h"
#include "nn/layers/convolution/convolution_geometry.h"
#include "nn/layers/inner_product/biased_top.h"

namespace millrace::inline nn {

// Used by the layer's thread. A deconvolution (`reversed`) exchanges the passes of the plan.
class PlannedConvolution {
 public:
  // `plan`: for the geometry's convolution and the shapes of the layer's blobs. Reserves the plan's
  // workspace in the context's scratchpad.
  PlannedConvolution(const ConvolutionGeometry& geometry, bool reversed,
                     const LayerContext& context, std::unique_ptr<ConvolutionPlan> plan);

  // The layer's passes. `params` are the weights and, if there is one, the bias. `output` may have
  // taken in a layer behind.
  void Forward(const std::vector<Param>& params, const Blobs& bottom, const Blobs& top,
               const BiasedTop& output = {});
  void Backward(const std::vector<Param>& params, const Blobs& top,
                const std::vector<bool>& propagate_down, const Blobs& bottom,
                const BiasedTop& output = {});

 private:
  ChannelView ViewOf(const Blob& top) const;
  void* Workspace() { return context_.scratch->Get(plan_->workspace_bytes()); }

  const ConvolutionGeometry geometry_;
  const bool reversed_;
  const LayerContext context_;
  const std::unique_ptr<ConvolutionPlan> plan_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_PLANNED_CONVOLUTION_H_
