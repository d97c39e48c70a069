#include "nn/gpu/cuda_convolution_passes.h"

#include <glog/logging.h>

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

bool IsLackOfMemory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

size_t BytesOf(cudnnDataType_t type) { return type == CUDNN_DATA_BFLOAT16 ? 2 : 4; }

}  // namespace

ConvolutionPasses::ConvolutionPasses(const ConvolutionProblem& p,
                                     const ConvolutionArithmetic& arithmetic, size_t max_workspace,
                                     const CudnnContext& context)
    : problem_(p),
      context_(context),
      api_(context.api),
      handle_(context.handle),
      queue_(context.queue),
      arithmetic_(arithmetic),
      max_workspace_(max_workspace),
      bottom_(MakeTensor(p.images, p.channels, p.height, p.width)),
      top_(MakeTensor(p.images, p.outputs, p.out_height, p.out_width)) {
  cudnnFilterDescriptor_t weights = nullptr;
  Check(api_.cudnnCreateFilterDescriptor(&weights));
  weights_ = Filter(weights, {&api_});
  Check(api_.cudnnSetFilter4dDescriptor(weights, arithmetic_.type, arithmetic_.format,
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
  Recall(&forward_);
  Recall(&data_);
  Recall(&filter_);
  Measure();
  if (Choose(&forward_)) Remember(forward_);
  if (Choose(&data_)) Remember(data_);
  if (Choose(&filter_)) Remember(filter_);
  workspace_bytes_ = std::max({forward_.bytes(), data_.bytes(), filter_.bytes()});
}

ConvolutionPasses::Tensor ConvolutionPasses::MakeTensor(int64_t n, int64_t c, int64_t h,
                                                        int64_t w) const {
  cudnnTensorDescriptor_t tensor = nullptr;
  Check(api_.cudnnCreateTensorDescriptor(&tensor));
  Tensor owned(tensor, {&api_});
  Check(api_.cudnnSetTensor4dDescriptor(tensor, arithmetic_.format, arithmetic_.type, Int(n),
                                        Int(c), Int(h), Int(w)));
  return owned;
}

std::vector<PassAlgorithm> ConvolutionPasses::algorithms() const {
  std::vector<PassAlgorithm> found;
  const auto add = [&](const auto& choices, const char* pass) {
    if (!choices.empty()) {
      found.push_back({pass, arithmetic_.name, static_cast<int>(choices.algorithm())});
    }
  };
  add(forward_, "forward"), add(data_, "backward"), add(filter_, "weight");
  return found;
}

// ---- The passes ----

// Enqueues the work of a pass by the first algorithm that takes it. An algorithm that succeeds
// stays the first.
template <typename Algorithm, typename Call>
bool ConvolutionPasses::Run(AlgorithmChoices<Algorithm>* choices, bool adds, Call call) {
  // Saves the plans of all convolutions of the net at once, when the first of them works.
  if (context_.cache != nullptr) context_.cache->Save();
  if (choices->empty()) return false;
  queue_.Select();
  cudnnStatus_t status = call();
  while (status != CUDNN_STATUS_SUCCESS) {
    if (!MayGoOn(CudnnPass<Algorithm>::kName, static_cast<int>(choices->algorithm()), adds,
                 status)) {
      Check(status);
    }
    choices->Drop();
    // The workspace has the size that was asked for.
    while (Choose(choices) && choices->bytes() > workspace_bytes_) choices->Drop();
    if (choices->empty()) return false;
    status = call();
    if (status == CUDNN_STATUS_SUCCESS) Remember(*choices);
  }
  return true;
}

// Whether another algorithm may do the work that this one has not done. cuDNN lists algorithms that
// then fail, for their own reasons, though neither the device nor the arguments are to blame.
// `adds`: to what is there, which a kernel that has run before the failure may have changed.
bool ConvolutionPasses::MayGoOn(const char* pass, int algorithm, bool adds, cudnnStatus_t status) {
  if (IsRefusal(status)) return true;
  const int category = CUDNN_STATUS_CATEGORY(status);
  const bool has_begun =
      category == CUDNN_STATUS_INTERNAL_ERROR || category == CUDNN_STATUS_EXECUTION_FAILED;
  if (IsLackOfMemory(status) || (category != CUDNN_STATUS_BAD_PARAM && !has_begun) ||
      (adds && has_begun) || IsRecording()) {
    return false;
  }
  Recover();
  LOG(WARNING) << device() << ": cuDNN's algorithm " << algorithm << " for the " << pass
               << " pass of a convolution of " << problem_.channels << " channels, "
               << problem_.outputs << " outputs, kernel " << problem_.kernel[0] << "x"
               << problem_.kernel[1] << " has failed: " << api_.cudnnGetErrorString(status)
               << "; going on to the next one";
  return true;
}

bool ConvolutionPasses::IsRecording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  queue_.Check(cudaStreamIsCapturing(queue_.stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

void ConvolutionPasses::Recover() {
  cudaGetLastError();    // clears what a launch has left; the next kernel would report it
  queue_.Synchronize();  // reports a failure of the device, which nothing clears
}

bool ConvolutionPasses::Forward(const void* bottom, const void* weights, void* top,
                                void* workspace) {
  const float one = 1, zero = 0;
  return Run(&forward_, false, [&] {
    return api_.cudnnConvolutionForward(handle_, &one, bottom_.get(), bottom, weights_.get(),
                                        weights, convolution_.get(), forward_.algorithm(),
                                        workspace, forward_.bytes(), &zero, top_.get(), top);
  });
}

bool ConvolutionPasses::BackwardData(const void* top_diff, const void* weights, void* bottom_diff,
                                     void* workspace) {
  const float one = 1, zero = 0;
  return Run(&data_, false, [&] {
    return api_.cudnnConvolutionBackwardData(
        handle_, &one, weights_.get(), weights, top_.get(), top_diff, convolution_.get(),
        data_.algorithm(), workspace, data_.bytes(), &zero, bottom_.get(), bottom_diff);
  });
}

bool ConvolutionPasses::BackwardWeights(const void* bottom, const void* top_diff, bool add,
                                        void* weight_diff, void* workspace) {
  const float one = 1, old = add ? 1 : 0;
  return Run(&filter_, add, [&] {
    return api_.cudnnConvolutionBackwardFilter(
        handle_, &one, bottom_.get(), bottom, top_.get(), top_diff, convolution_.get(),
        filter_.algorithm(), workspace, filter_.bytes(), &old, weights_.get(), weight_diff);
  });
}

// ---- The choice of algorithms ----

// Until the algorithms of the cache have been refused, cuDNN is not asked for others.
template <typename Algorithm>
bool ConvolutionPasses::Choose(AlgorithmChoices<Algorithm>* choices) const {
  using Proposal = typename CudnnPass<Algorithm>::Proposal;
  const auto ask = [this](Algorithm algorithm, size_t* bytes) {
    return AskWorkspace(algorithm, bytes);
  };
  if (choices->Choose(max_workspace_, ask)) return true;
  if (choices->proposed()) return false;
  const auto proposals = Proposals<Proposal>([this](int most, int* count, Proposal* to) {
    const cudnnStatus_t status = AskProposals(most, count, to);
    if (!IsRefusal(status)) Check(status);
    return status;
  });
  choices->Propose(proposals, arithmetic_.math, false);
  return choices->Choose(max_workspace_, ask);
}

template <typename Proposal, typename Ask>
std::vector<Proposal> ConvolutionPasses::Proposals(Ask ask) const {
  constexpr int kMaxProposals = 16;  // each algorithm with two math types
  std::vector<Proposal> proposals(kMaxProposals);
  int count = 0;
  if (ask(kMaxProposals, &count, proposals.data()) != CUDNN_STATUS_SUCCESS) return {};
  proposals.resize(std::clamp(count, 0, kMaxProposals));
  return proposals;
}

// ---- Measurements ----

// Arrays as the passes have them, of zeros: cuDNN overwrites results while it measures.
struct ConvolutionPasses::MeasureArrays {
  Buffer bottom, weights, top, workspace;
};

// Measures the passes that have no choice yet.
void ConvolutionPasses::Measure() {
  MeasureTime* const time = context_.measure;
  if (time == nullptr || !time->is_left() || IsRecording()) return;
  if (!forward_.empty() && !data_.empty() && !filter_.empty()) return;
  const ConvolutionProblem& p = problem_;
  const size_t each = BytesOf(arithmetic_.type);
  MemorySpace& memory = queue_.device().memory();
  try {
    const MeasureArrays arrays{
        Buffer(memory, each * p.images * p.channels * p.height * p.width),
        Buffer(memory, each * p.outputs * (p.channels / p.group) * p.kernel[0] * p.kernel[1]),
        Buffer(memory, each * p.images * p.outputs * p.out_height * p.out_width),
        Buffer(memory, std::max({MaxWorkspace<cudnnConvolutionFwdAlgo_t>(),
                                 MaxWorkspace<cudnnConvolutionBwdDataAlgo_t>(),
                                 MaxWorkspace<cudnnConvolutionBwdFilterAlgo_t>()}))};
    for (const Buffer* array : {&arrays.bottom, &arrays.weights, &arrays.top}) {
      queue_.Fill(array->get(), 0, array->bytes());
    }
    Measure(arrays, &forward_);
    Measure(arrays, &data_);
    Measure(arrays, &filter_);
    queue_.Synchronize();
  } catch (const OutOfMemory&) {
    LOG(INFO) << device() << ": too little memory to measure algorithms of a convolution";
  }
  if (!time->is_left()) {
    LOG(INFO)
        << device() << ": the " << time->seconds()
        << " s for measuring algorithms of convolutions have passed: cuDNN's heuristics choose "
           "the others";
  }
}

template <typename Algorithm>
void ConvolutionPasses::Measure(const MeasureArrays& arrays, AlgorithmChoices<Algorithm>* choices) {
  using Proposal = typename CudnnPass<Algorithm>::Proposal;
  if (!choices->empty() || !context_.measure->is_left()) return;
  const auto proposals = Proposals<Proposal>([&](int most, int* count, Proposal* to) {
    const auto status = context_.measure->Spend([&] { return AskTimes(arrays, most, count, to); });
    // Also when it succeeds, one of the algorithms may have failed.
    Recover();
    return status;
  });
  const bool works = std::any_of(proposals.begin(), proposals.end(), [](const Proposal& each) {
    return each.status == CUDNN_STATUS_SUCCESS;
  });
  if (works) choices->Propose(proposals, arithmetic_.math, true);
}

// The largest workspace of an algorithm within the limit.
template <typename Algorithm>
size_t ConvolutionPasses::MaxWorkspace() const {
  size_t largest = 0;
  for (int i = 0; i < CudnnPass<Algorithm>::kAlgorithms; ++i) {
    size_t bytes = 0;
    const cudnnStatus_t status = AskWorkspace(static_cast<Algorithm>(i), &bytes);
    if (status == CUDNN_STATUS_SUCCESS && bytes <= max_workspace_) {
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

// ---- The cache ----

template <typename Algorithm>
ConvolutionKey ConvolutionPasses::Key() const {
  return {CudnnPass<Algorithm>::kName, arithmetic_.name, api_.cudnnGetVersion(), problem_,
          context_.gpu};
}

// A choice of the heuristics only where nothing is measured.
template <typename Algorithm>
void ConvolutionPasses::Recall(AlgorithmChoices<Algorithm>* choices) const {
  if (context_.cache == nullptr) return;
  const std::optional<ConvolutionChoice> found = context_.cache->Find(Key<Algorithm>());
  if (!found || found->algorithm >= CudnnPass<Algorithm>::kAlgorithms) return;
  const bool measures = context_.measure != nullptr && context_.measure->is_left();
  if (found->measured || !measures) {
    choices->Add(static_cast<Algorithm>(found->algorithm), found->measured);
  }
}

template <typename Algorithm>
void ConvolutionPasses::Remember(const AlgorithmChoices<Algorithm>& choices) const {
  if (context_.cache == nullptr) return;
  context_.cache->Store(Key<Algorithm>(),
                        {static_cast<int>(choices.algorithm()), choices.measured()});
}

// ---- cuDNN's functions of the three passes ----

cudnnStatus_t ConvolutionPasses::AskWorkspace(cudnnConvolutionFwdAlgo_t algorithm,
                                              size_t* bytes) const {
  return api_.cudnnGetConvolutionForwardWorkspaceSize(
      handle_, bottom_.get(), weights_.get(), convolution_.get(), top_.get(), algorithm, bytes);
}
cudnnStatus_t ConvolutionPasses::AskWorkspace(cudnnConvolutionBwdDataAlgo_t algorithm,
                                              size_t* bytes) const {
  return api_.cudnnGetConvolutionBackwardDataWorkspaceSize(
      handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(), algorithm, bytes);
}
cudnnStatus_t ConvolutionPasses::AskWorkspace(cudnnConvolutionBwdFilterAlgo_t algorithm,
                                              size_t* bytes) const {
  return api_.cudnnGetConvolutionBackwardFilterWorkspaceSize(
      handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), algorithm, bytes);
}

cudnnStatus_t ConvolutionPasses::AskProposals(int most, int* count,
                                              cudnnConvolutionFwdAlgoPerf_t* to) const {
  return api_.cudnnGetConvolutionForwardAlgorithm_v7(
      handle_, bottom_.get(), weights_.get(), convolution_.get(), top_.get(), most, count, to);
}
cudnnStatus_t ConvolutionPasses::AskProposals(int most, int* count,
                                              cudnnConvolutionBwdDataAlgoPerf_t* to) const {
  return api_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
      handle_, weights_.get(), top_.get(), convolution_.get(), bottom_.get(), most, count, to);
}
cudnnStatus_t ConvolutionPasses::AskProposals(int most, int* count,
                                              cudnnConvolutionBwdFilterAlgoPerf_t* to) const {
  return api_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      handle_, bottom_.get(), top_.get(), convolution_.get(), weights_.get(), most, count, to);
}

cudnnStatus_t ConvolutionPasses::AskTimes(const MeasureArrays& in, int most, int* count,
                                          cudnnConvolutionFwdAlgoPerf_t* to) const {
  return api_.cudnnFindConvolutionForwardAlgorithmEx(
      handle_, bottom_.get(), in.bottom.get(), weights_.get(), in.weights.get(), convolution_.get(),
      top_.get(), in.top.get(), most, count, to, in.workspace.get(), in.workspace.bytes());
}
cudnnStatus_t ConvolutionPasses::AskTimes(const MeasureArrays& in, int most, int* count,
                                          cudnnConvolutionBwdDataAlgoPerf_t* to) const {
  return api_.cudnnFindConvolutionBackwardDataAlgorithmEx(
      handle_, weights_.get(), in.weights.get(), top_.get(), in.top.get(), convolution_.get(),
      bottom_.get(), in.bottom.get(), most, count, to, in.workspace.get(), in.workspace.bytes());
}
cudnnStatus_t ConvolutionPasses::AskTimes(const MeasureArrays& in, int most, int* count,
                                          cudnnConvolutionBwdFilterAlgoPerf_t* to) const {
  return api_.cudnnFindConvolutionBackwardFilterAlgorithmEx(
      handle_, bottom_.get(), in.bottom.get(), top_.get(), in.top.get(), convolution_.get(),
      weights_.get(), in.weights.get(), most, count, to, in.workspace.get(), in.workspace.bytes());
}

}  // namespace millrace::inline nn
