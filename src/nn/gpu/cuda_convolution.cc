#include "nn/gpu/cuda_convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "nn/gpu/cuda_api.h"

namespace millrace::inline nn {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;

// Descriptors, destroyed with their owner.
template <typename Descriptor, auto kDestroy>
struct Destroy {
  void operator()(Descriptor descriptor) const { (Cudnn().*kDestroy)(descriptor); }
};
template <typename Descriptor, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy<Descriptor, kDestroy>>;

using Tensor = Owned<cudnnTensorDescriptor_t, &CudnnApi::cudnnDestroyTensorDescriptor>;
using Filter = Owned<cudnnFilterDescriptor_t, &CudnnApi::cudnnDestroyFilterDescriptor>;
using Convolution =
    Owned<cudnnConvolutionDescriptor_t, &CudnnApi::cudnnDestroyConvolutionDescriptor>;

class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const ConvolutionProblem& p, cudnnHandle_t handle, CudaQueue& queue)
      : handle_(handle),
        queue_(queue),
        bottom_(MakeTensor(p.images, p.channels, p.height, p.width)),
        top_(MakeTensor(p.images, p.outputs, p.out_height, p.out_width)) {
    cudnnFilterDescriptor_t weights = nullptr;
    Check(api_.cudnnCreateFilterDescriptor(&weights));
    weights_.reset(weights);
    Check(api_.cudnnSetFilter4dDescriptor(weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                          Int(p.outputs), Int(p.channels / p.group),
                                          Int(p.kernel[0]), Int(p.kernel[1])));
    cudnnConvolutionDescriptor_t convolution = nullptr;
    Check(api_.cudnnCreateConvolutionDescriptor(&convolution));
    convolution_.reset(convolution);
    Check(api_.cudnnSetConvolution2dDescriptor(
        convolution, Int(p.pad[0]), Int(p.pad[1]), Int(p.stride[0]), Int(p.stride[1]),
        Int(p.dilation[0]), Int(p.dilation[1]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    Check(api_.cudnnSetConvolutionGroupCount(convolution, Int(p.group)));
    Check(api_.cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
    Choose();
  }

  size_t workspace_bytes() const override {
    return std::max({forward_.memory, data_.memory, filter_.memory});
  }

  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    const float one = 1, zero = 0;
    Begin();
    Check(api_.cudnnConvolutionForward(handle_, &one, bottom_.get(), bottom, weights_.get(),
                                       weights, convolution_.get(), forward_.algo, workspace,
                                       forward_.memory, &zero, top_.get(), top));
  }
  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    const float one = 1, zero = 0;
    Begin();
    Check(api_.cudnnConvolutionBackwardData(handle_, &one, weights_.get(), weights, top_.get(),
                                            top_diff, convolution_.get(), data_.algo, workspace,
                                            data_.memory, &zero, bottom_.get(), bottom_diff));
  }
  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    const float one = 1, old = add ? 1 : 0;
    Begin();
    Check(api_.cudnnConvolutionBackwardFilter(handle_, &one, bottom_.get(), bottom, top_.get(),
                                              top_diff, convolution_.get(), filter_.algo, workspace,
                                              filter_.memory, &old, weights_.get(), weight_diff));
  }

 private:
  static int Int(int64_t value) {
    if (value > std::numeric_limits<int>::max()) {
      throw Error("a convolution of size ", value, " is too large for cuDNN");
    }
    return static_cast<int>(value);
  }
  const std::string& device() const { return queue_.device().name(); }
  void Check(cudnnStatus_t status) const { api_.Check(status, device(), "a convolution failed"); }
  void Begin() { queue_.Select(); }

  Tensor MakeTensor(int64_t n, int64_t c, int64_t h, int64_t w) const {
    cudnnTensorDescriptor_t tensor = nullptr;
    Check(api_.cudnnCreateTensorDescriptor(&tensor));
    Tensor owned(tensor);
    Check(api_.cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(n),
                                          Int(c), Int(h), Int(w)));
    return owned;
  }

  // The first of cuDNN's proposals, the fastest first, that works within the limit.
  template <typename Proposal, typename Ask>
  Proposal Best(const char* pass, Ask ask) const {
    constexpr int kMost = 16;
    Proposal proposals[kMost];
    int count = 0;
    Check(ask(kMost, &count, proposals));
    for (int i = 0; i < count; ++i) {
      if (proposals[i].status == CUDNN_STATUS_SUCCESS && proposals[i].memory <= kMostWorkspace) {
        return proposals[i];
      }
    }
    throw Error(device(), ": cuDNN has no algorithm for the ", pass, " pass of a convolution");
  }

  void Choose() {
    forward_ = Best<cudnnConvolutionFwdAlgoPerf_t>("forward", [&](int most, int* n, auto* out) {
      return api_.cudnnGetConvolutionForwardAlgorithm_v7(
          handle_, bottom_.get(), weights_.get(), convolution_.get(), top_.get(), most, n, out);
    });
    data_ = Best<cudnnConvolutionBwdDataAlgoPerf_t>("backward", [&](int most, int* n, auto* out) {
      return api_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
          handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(), most, n, out);
    });
    filter_ = Best<cudnnConvolutionBwdFilterAlgoPerf_t>("weight", [&](int most, int* n, auto* out) {
      return api_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
          handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), most, n, out);
    });
  }

  const CudnnApi& api_ = Cudnn();
  const cudnnHandle_t handle_;
  CudaQueue& queue_;
  Tensor bottom_, top_;
  Filter weights_;
  Convolution convolution_;
  cudnnConvolutionFwdAlgoPerf_t forward_{};
  cudnnConvolutionBwdDataAlgoPerf_t data_{};
  cudnnConvolutionBwdFilterAlgoPerf_t filter_{};
};

}  // namespace

std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      cudnnHandle_t handle, CudaQueue& queue) {
  return std::make_unique<CudnnConvolution>(problem, handle, queue);
}

}  // namespace millrace::inline nn
