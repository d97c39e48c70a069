#include "nn/gpu/cuda_convolution_passes.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace millrace::inline nn {
namespace {

int Int(int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw Error("a convolution of size ", value, " is too large for cuDNN");
  }
  return static_cast<int>(value);
}

bool IsRefusal(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

ConvolutionPasses::ConvolutionPasses(const ConvolutionProblem& p,
                                     const ConvolutionArithmetic& arithmetic, size_t most_workspace,
                                     const CudnnContext& context)
    : problem_(p),
      context_(context),
      api_(context.api),
      handle_(context.handle),
      queue_(context.queue),
      arithmetic_(arithmetic),
      most_workspace_(most_workspace),
      bottom_(MakeTensor(p.images, p.channels, p.height, p.width)),
      top_(MakeTensor(p.images, p.outputs, p.out_height, p.out_width)) {
  cudnnFilterDescriptor_t weights = nullptr;
  Check(api_.cudnnCreateFilterDescriptor(&weights));
  weights_ = Filter(weights, {&api_});
  Check(api_.cudnnSetFilter4dDescriptor(weights, arithmetic_.type, CUDNN_TENSOR_NCHW,
                                        Int(p.outputs), Int(p.channels / p.group), Int(p.kernel[0]),
                                        Int(p.kernel[1])));
  cudnnConvolutionDescriptor_t convolution = nullptr;
  Check(api_.cudnnCreateConvolutionDescriptor(&convolution));
  convolution_ = Convolution(convolution, {&api_});
  Check(api_.cudnnSetConvolution2dDescriptor(
      convolution, Int(p.pad[0]), Int(p.pad[1]), Int(p.stride[0]), Int(p.stride[1]),
      Int(p.dilation[0]), Int(p.dilation[1]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  Check(api_.cudnnSetConvolutionGroupCount(convolution, Int(p.group)));
  Check(api_.cudnnSetConvolutionMathType(convolution, arithmetic_.math));
  Recall("forward", CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &forward_);
  Recall("backward", CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &data_);
  Recall("weight", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &filter_);
  if (ChooseForward()) Remember("forward", forward_);
  if (ChooseData()) Remember("backward", data_);
  if (ChooseFilter()) Remember("weight", filter_);
  workspace_bytes_ = std::max({forward_.bytes(), data_.bytes(), filter_.bytes()});
}

ConvolutionPasses::Tensor ConvolutionPasses::MakeTensor(int64_t n, int64_t c, int64_t h,
                                                        int64_t w) const {
  cudnnTensorDescriptor_t tensor = nullptr;
  Check(api_.cudnnCreateTensorDescriptor(&tensor));
  Tensor owned(tensor, {&api_});
  Check(api_.cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, arithmetic_.type, Int(n), Int(c),
                                        Int(h), Int(w)));
  return owned;
}

// ---- The passes ----

// Enqueues the work of a pass by the first algorithm that takes it. An algorithm that succeeds
// stays the first.
template <typename Algorithm, typename ChooseNext, typename Call>
bool ConvolutionPasses::Run(const char* pass, AlgorithmChoices<Algorithm>* choices,
                            ChooseNext choose, Call call) {
  // Of all plans of a net at once: when the first of them works.
  if (context_.cache != nullptr) context_.cache->Save();
  if (choices->empty()) return false;
  queue_.Select();
  cudnnStatus_t status = call();
  while (IsRefusal(status)) {
    choices->Drop();
    // The workspace has the size that was asked for.
    while (choose() && choices->bytes() > workspace_bytes_) choices->Drop();
    if (choices->empty()) return false;
    status = call();
    if (status == CUDNN_STATUS_SUCCESS) Remember(pass, *choices);
  }
  Check(status);
  return true;
}

bool ConvolutionPasses::Forward(const void* bottom, const void* weights, void* top,
                                void* workspace) {
  const float one = 1, zero = 0;
  return Run(
      "forward", &forward_, [&] { return ChooseForward(); },
      [&] {
        return api_.cudnnConvolutionForward(handle_, &one, bottom_.get(), bottom, weights_.get(),
                                            weights, convolution_.get(), forward_.algorithm(),
                                            workspace, forward_.bytes(), &zero, top_.get(), top);
      });
}

bool ConvolutionPasses::BackwardData(const void* top_diff, const void* weights, void* bottom_diff,
                                     void* workspace) {
  const float one = 1, zero = 0;
  return Run(
      "backward", &data_, [&] { return ChooseData(); },
      [&] {
        return api_.cudnnConvolutionBackwardData(
            handle_, &one, weights_.get(), weights, top_.get(), top_diff, convolution_.get(),
            data_.algorithm(), workspace, data_.bytes(), &zero, bottom_.get(), bottom_diff);
      });
}

bool ConvolutionPasses::BackwardWeights(const void* bottom, const void* top_diff, bool add,
                                        void* weight_diff, void* workspace) {
  const float one = 1, old = add ? 1 : 0;
  return Run(
      "weight", &filter_, [&] { return ChooseFilter(); },
      [&] {
        return api_.cudnnConvolutionBackwardFilter(
            handle_, &one, bottom_.get(), bottom, top_.get(), top_diff, convolution_.get(),
            filter_.algorithm(), workspace, filter_.bytes(), &old, weights_.get(), weight_diff);
      });
}

// ---- The choice of algorithms ----

template <typename Proposal, typename Ask>
std::vector<Proposal> ConvolutionPasses::Proposals(Ask ask) const {
  constexpr int kMost = 16;
  std::vector<Proposal> proposals(kMost);
  int count = 0;
  const cudnnStatus_t status = ask(kMost, &count, proposals.data());
  if (IsRefusal(status)) return {};
  Check(status);
  proposals.resize(std::clamp(count, 0, kMost));
  return proposals;
}

// Until the algorithms of the cache have been refused, cuDNN is not asked for others.
template <typename Algorithm, typename Propose, typename Ask>
bool ConvolutionPasses::Choose(AlgorithmChoices<Algorithm>* choices, Propose propose,
                               Ask ask) const {
  if (choices->Choose(most_workspace_, ask)) return true;
  if (choices->proposed()) return false;
  propose();
  return choices->Choose(most_workspace_, ask);
}

bool ConvolutionPasses::ChooseForward() {
  return Choose(
      &forward_,
      [&] {
        forward_.Propose(Proposals<cudnnConvolutionFwdAlgoPerf_t>([&](int most, int* n, auto* out) {
                           return api_.cudnnGetConvolutionForwardAlgorithm_v7(
                               handle_, bottom_.get(), weights_.get(), convolution_.get(),
                               top_.get(), most, n, out);
                         }),
                         arithmetic_.math,
                         {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                          CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM});
      },
      [&](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
        return api_.cudnnGetConvolutionForwardWorkspaceSize(handle_, bottom_.get(), weights_.get(),
                                                            convolution_.get(), top_.get(),
                                                            algorithm, bytes);
      });
}

bool ConvolutionPasses::ChooseData() {
  return Choose(
      &data_,
      [&] {
        data_.Propose(
            Proposals<cudnnConvolutionBwdDataAlgoPerf_t>([&](int most, int* n, auto* out) {
              return api_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                  handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(), most, n,
                  out);
            }),
            arithmetic_.math,
            {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0});
      },
      [&](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
        return api_.cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, weights_.get(),
                                                                 top_.get(), convolution_.get(),
                                                                 bottom_.get(), algorithm, bytes);
      });
}

bool ConvolutionPasses::ChooseFilter() {
  return Choose(
      &filter_,
      [&] {
        filter_.Propose(
            Proposals<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int most, int* n, auto* out) {
              return api_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                  handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), most, n,
                  out);
            }),
            arithmetic_.math,
            {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0});
      },
      [&](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
        return api_.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), algorithm,
            bytes);
      });
}

// ---- The cache ----

ConvolutionKey ConvolutionPasses::Key(const char* pass) const {
  return {pass, arithmetic_.name, api_.cudnnGetVersion(), problem_, context_.gpu};
}

template <typename Algorithm>
void ConvolutionPasses::Recall(const char* pass, int algorithms,
                               AlgorithmChoices<Algorithm>* choices) const {
  if (context_.cache == nullptr) return;
  const std::optional<int> found = context_.cache->Find(Key(pass));
  if (found && *found < algorithms) choices->Add(static_cast<Algorithm>(*found));
}

template <typename Algorithm>
void ConvolutionPasses::Remember(const char* pass,
                                 const AlgorithmChoices<Algorithm>& choices) const {
  if (context_.cache == nullptr) return;
  context_.cache->Store(Key(pass), static_cast<int>(choices.algorithm()));
}

}  // namespace millrace::inline nn
