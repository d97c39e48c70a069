#include <memory>

#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/gpu/gpu_library.h"
#include "nn/layers/bias_kernels.h"
#include "nn/layers/convolution_layer.h"

namespace millrace {
namespace {

class ConvolutionGpu : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape& shape = bottom[0]->shape();
    for (const Blob* blob : bottom) {
      if (blob->shape() != shape) {
        throw FieldError("bottom", "shapes ", ShapeText(shape), " and ", ShapeText(blob->shape()),
                         " differ, expected equal ones");
      }
    }
    if (shape[1] != geometry_.channels) {
      throw FieldError("bottom", "has ", shape[1], " channels, expected ", geometry_.channels);
    }
    const Shape out = geometry_.TopShape(shape);
    for (Blob* blob : top) blob->Reshape(out);
    ConvolutionProblem problem{shape[0], shape[1],        shape[2], shape[3], out[1], out[2],
                               out[3],   geometry_.group, {},       {},       {},     {}};
    for (int axis : {0, 1}) {
      problem.kernel[axis] = geometry_.kernel[axis];
      problem.stride[axis] = geometry_.stride[axis];
      problem.pad[axis] = geometry_.pad[axis];
      problem.dilation[axis] = geometry_.dilation[axis];
    }
    if (plan_ && problem == problem_) return;
    problem_ = problem;
    plan_ = GpuLibraryOf(*context_.queue).PlanConvolution(problem);
    Workspace();  // reserved now, so that the passes do not allocate
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      plan_->Forward(bottom[i]->data(), params_[0].blob->data(), top[i]->data(), Workspace());
      if (!geometry_.bias) continue;
      Launch(
          *context_.queue, top[i]->count(),
          AddBias{geometry_.num_output, Plane(*top[i]), params_[1].blob->data(), top[i]->data()});
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      const float* const top_diff = top[i]->diff();
      if (params_[0].wanted) {
        plan_->BackwardWeights(bottom[i]->data(), top_diff, i > 0 || *params_[0].has_gradient,
                               params_[0].blob->diff(), Workspace());
      }
      if (geometry_.bias && params_[1].wanted) {
        Launch(*context_.queue, geometry_.num_output,
               BiasGradient{top[i]->dim(0), geometry_.num_output, Plane(*top[i]),
                            i > 0 || *params_[1].has_gradient, top_diff, params_[1].blob->diff()});
      }
      if (!propagate_down[i]) continue;
      plan_->BackwardData(top_diff, params_[0].blob->data(), bottom[i]->diff(), Workspace());
    }
  }

 private:
  static int64_t Plane(const Blob& top) { return top.dim(2) * top.dim(3); }
  void* Workspace() { return context_.scratch->Get(plan_->workspace_bytes()); }

  ConvolutionProblem problem_{};
  std::unique_ptr<ConvolutionPlan> plan_;
};

const RegisterGpuLayer<ConvolutionGpu> registered("Convolution");

}  // namespace
}  // namespace millrace
