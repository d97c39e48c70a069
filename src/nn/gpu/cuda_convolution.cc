#include "nn/gpu/cuda_convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace millrace::inline nn {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;

// cuDNN's default arithmetic for float32 uses TF32 where there are tensor cores for it.
cudnnMathType_t MathOf(GpuPrecision precision) {
  return precision == GpuPrecision::kTf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}
// Whether a proposal with this math type is one for a descriptor with `math`.
bool Fits(cudnnMathType_t proposed, cudnnMathType_t math) {
  return proposed == math || proposed == CUDNN_DEFAULT_MATH || math == CUDNN_DEFAULT_MATH;
}

// A descriptor, destroyed with its owner.
template <typename Descriptor, auto kDestroy>
struct Destroy {
  const CudnnApi* api = nullptr;
  void operator()(Descriptor descriptor) const { (api->*kDestroy)(descriptor); }
};
template <typename Descriptor, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy<Descriptor, kDestroy>>;

using Tensor = Owned<cudnnTensorDescriptor_t, &CudnnApi::cudnnDestroyTensorDescriptor>;
using Filter = Owned<cudnnFilterDescriptor_t, &CudnnApi::cudnnDestroyFilterDescriptor>;
using Convolution =
    Owned<cudnnConvolutionDescriptor_t, &CudnnApi::cudnnDestroyConvolutionDescriptor>;

bool IsRefusal(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

// Algorithms of one pass in the order of preference.
template <typename Algorithm>
class Choices {
 public:
  // Adds those of cuDNN's proposals, the fastest first, that succeed in the descriptor's own
  // arithmetic, then `plain`, which cuDNN may not have proposed. A proposal with another math type
  // counts its time and workspace for that type: such algorithms come behind the others.
  template <typename Proposal>
  void Propose(const std::vector<Proposal>& proposals, cudnnMathType_t math,
               std::initializer_list<Algorithm> plain) {
    for (const bool fits : {true, false}) {
      for (const Proposal& each : proposals) {
        if (each.status == CUDNN_STATUS_SUCCESS && Fits(each.mathType, math) == fits) {
          Add(each.algo);
        }
      }
    }
    for (const Algorithm each : plain) Add(each);
  }

  // Removes algorithms until the first works within the limit, by ask(algorithm, &bytes). Returns
  // false if none does.
  template <typename Ask>
  bool Choose(Ask ask) {
    for (; !algorithms_.empty(); Drop()) {
      bytes_ = 0;
      if (ask(algorithms_.front(), &bytes_) == CUDNN_STATUS_SUCCESS && bytes_ <= kMostWorkspace) {
        return true;
      }
    }
    return false;
  }

  bool empty() const { return algorithms_.empty(); }
  Algorithm algorithm() const { return algorithms_.front(); }
  size_t bytes() const { return bytes_; }
  void Drop() { algorithms_.erase(algorithms_.begin()); }

 private:
  void Add(Algorithm algorithm) {
    if (std::find(algorithms_.begin(), algorithms_.end(), algorithm) == algorithms_.end()) {
      algorithms_.push_back(algorithm);
    }
  }

  std::vector<Algorithm> algorithms_;
  size_t bytes_ = 0;  // workspace of the first
};

class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const ConvolutionProblem& p, const CudnnApi& api, cudnnHandle_t handle,
                   CudaQueue& queue, GpuPrecision precision)
      : api_(api),
        handle_(handle),
        queue_(queue),
        math_(MathOf(precision)),
        bottom_(MakeTensor(p.images, p.channels, p.height, p.width)),
        top_(MakeTensor(p.images, p.outputs, p.out_height, p.out_width)) {
    cudnnFilterDescriptor_t weights = nullptr;
    Check(api_.cudnnCreateFilterDescriptor(&weights));
    weights_ = Filter(weights, {&api_});
    Check(api_.cudnnSetFilter4dDescriptor(weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                          Int(p.outputs), Int(p.channels / p.group),
                                          Int(p.kernel[0]), Int(p.kernel[1])));
    cudnnConvolutionDescriptor_t convolution = nullptr;
    Check(api_.cudnnCreateConvolutionDescriptor(&convolution));
    convolution_ = Convolution(convolution, {&api_});
    Check(api_.cudnnSetConvolution2dDescriptor(
        convolution, Int(p.pad[0]), Int(p.pad[1]), Int(p.stride[0]), Int(p.stride[1]),
        Int(p.dilation[0]), Int(p.dilation[1]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    Check(api_.cudnnSetConvolutionGroupCount(convolution, Int(p.group)));
    Check(api_.cudnnSetConvolutionMathType(convolution, math_));
    Propose();
    Require(ChooseForward(), "forward");
    Require(ChooseData(), "backward");
    Require(ChooseFilter(), "weight");
    workspace_bytes_ = std::max({forward_.bytes(), data_.bytes(), filter_.bytes()});
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    const float one = 1, zero = 0;
    Run(
        "forward", &forward_, [&] { return ChooseForward(); },
        [&] {
          return api_.cudnnConvolutionForward(handle_, &one, bottom_.get(), bottom, weights_.get(),
                                              weights, convolution_.get(), forward_.algorithm(),
                                              workspace, forward_.bytes(), &zero, top_.get(), top);
        });
  }
  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    const float one = 1, zero = 0;
    Run(
        "backward", &data_, [&] { return ChooseData(); },
        [&] {
          return api_.cudnnConvolutionBackwardData(
              handle_, &one, weights_.get(), weights, top_.get(), top_diff, convolution_.get(),
              data_.algorithm(), workspace, data_.bytes(), &zero, bottom_.get(), bottom_diff);
        });
  }
  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    const float one = 1, old = add ? 1 : 0;
    Run(
        "weight", &filter_, [&] { return ChooseFilter(); },
        [&] {
          return api_.cudnnConvolutionBackwardFilter(
              handle_, &one, bottom_.get(), bottom, top_.get(), top_diff, convolution_.get(),
              filter_.algorithm(), workspace, filter_.bytes(), &old, weights_.get(), weight_diff);
        });
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
  void Require(bool found, const char* pass) const {
    if (found) return;
    throw Error(device(), ": cuDNN has no algorithm for the ", pass, " pass of a convolution");
  }

  Tensor MakeTensor(int64_t n, int64_t c, int64_t h, int64_t w) const {
    cudnnTensorDescriptor_t tensor = nullptr;
    Check(api_.cudnnCreateTensorDescriptor(&tensor));
    Tensor owned(tensor, {&api_});
    Check(api_.cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(n),
                                          Int(c), Int(h), Int(w)));
    return owned;
  }

  // Enqueues the work of a pass by the first algorithm that takes it. An algorithm that succeeds
  // stays the first.
  template <typename Algorithm, typename ChooseNext, typename Call>
  void Run(const char* pass, Choices<Algorithm>* choices, ChooseNext choose, Call call) {
    Require(!choices->empty(), pass);  // all have refused before
    queue_.Select();
    cudnnStatus_t status = call();
    while (IsRefusal(status)) {
      choices->Drop();
      // The workspace has the size that was asked for.
      while (choose() && choices->bytes() > workspace_bytes_) choices->Drop();
      Require(!choices->empty(), pass);
      status = call();
    }
    Check(status);
  }

  template <typename Proposal, typename Ask>
  std::vector<Proposal> Proposals(Ask ask) const {
    constexpr int kMost = 16;
    std::vector<Proposal> proposals(kMost);
    int count = 0;
    const cudnnStatus_t status = ask(kMost, &count, proposals.data());
    if (IsRefusal(status)) return {};
    Check(status);
    proposals.resize(std::clamp(count, 0, kMost));
    return proposals;
  }

  void Propose() {
    forward_.Propose(Proposals<cudnnConvolutionFwdAlgoPerf_t>([&](int most, int* n, auto* out) {
                       return api_.cudnnGetConvolutionForwardAlgorithm_v7(
                           handle_, bottom_.get(), weights_.get(), convolution_.get(), top_.get(),
                           most, n, out);
                     }),
                     math_,
                     {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM});
    data_.Propose(Proposals<cudnnConvolutionBwdDataAlgoPerf_t>([&](int most, int* n, auto* out) {
                    return api_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                        handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(),
                        most, n, out);
                  }),
                  math_, {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0});
    filter_.Propose(
        Proposals<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int most, int* n, auto* out) {
          return api_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), most, n, out);
        }),
        math_, {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0});
  }

  bool ChooseForward() {
    return forward_.Choose([&](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
      return api_.cudnnGetConvolutionForwardWorkspaceSize(
          handle_, bottom_.get(), weights_.get(), convolution_.get(), top_.get(), algorithm, bytes);
    });
  }
  bool ChooseData() {
    return data_.Choose([&](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
      return api_.cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(), algorithm, bytes);
    });
  }
  bool ChooseFilter() {
    return filter_.Choose([&](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
      return api_.cudnnGetConvolutionBackwardFilterWorkspaceSize(
          handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), algorithm, bytes);
    });
  }

  const CudnnApi& api_;
  const cudnnHandle_t handle_;
  CudaQueue& queue_;
  const cudnnMathType_t math_;
  Tensor bottom_, top_;
  Filter weights_;
  Convolution convolution_;
  Choices<cudnnConvolutionFwdAlgo_t> forward_;
  Choices<cudnnConvolutionBwdDataAlgo_t> data_;
  Choices<cudnnConvolutionBwdFilterAlgo_t> filter_;
  size_t workspace_bytes_ = 0;
};

// A convolution of no images: cuDNN refuses tensors of no elements.
class EmptyConvolution final : public ConvolutionPlan {
 public:
  EmptyConvolution(const ConvolutionProblem& p, CudaQueue& queue)
      : weights_(p.outputs * (p.channels / p.group) * p.kernel[0] * p.kernel[1]), queue_(queue) {}
  size_t workspace_bytes() const override { return 0; }
  void Forward(const float*, const float*, float*, void*) override {}
  void BackwardData(const float*, const float*, float*, void*) override {}
  void BackwardWeights(const float*, const float*, bool add, float* weight_diff, void*) override {
    if (!add) queue_.Fill(weight_diff, 0, weights_ * sizeof(float));
  }

 private:
  const int64_t weights_;
  CudaQueue& queue_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnApi& api, cudnnHandle_t handle,
                                                      CudaQueue& queue, GpuPrecision precision) {
  if (problem.images == 0) return std::make_unique<EmptyConvolution>(problem, queue);
  return std::make_unique<CudnnConvolution>(problem, api, handle, queue, precision);
}

}  // namespace millrace::inline nn
