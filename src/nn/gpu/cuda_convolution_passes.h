#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_PASSES_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_PASSES_H_

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "device/cuda_queue.h"
#include "millrace/clock.h"
#include "nn/gpu/convolution_cache.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_library.h"

namespace millrace::inline nn {

// Time that a net may spend at its start on measuring algorithms.

// Not thread-safe.
class MeasureTime {
 public:
  // `seconds`: the limit. `clock` outlives this object.
  MeasureTime(double seconds, const Clock& clock) : seconds_(seconds), clock_(clock) {}

  double seconds() const { return seconds_; }
  bool is_left() const { return spent_ < seconds_; }
  // Returns measure(), and counts the time that it takes.
  template <typename Measure>
  auto Spend(Measure measure) {
    const double begin = clock_.NowSeconds();
    const auto result = measure();
    spent_ += clock_.NowSeconds() - begin;
    return result;
  }

 private:
  const double seconds_;
  const Clock& clock_;
  double spent_ = 0;
};

// Algorithms of cuDNN for a pass of a convolution, in the order in which they are to be tried.

// The names of a pass in cuDNN: by its type of algorithms.
template <typename Algorithm>
struct CudnnPass;

template <>
struct CudnnPass<cudnnConvolutionFwdAlgo_t> {
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr const char* kName = "forward";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  // Algorithms that support most problems, whether or not cuDNN proposes them.
  static constexpr cudnnConvolutionFwdAlgo_t kPlain[] = {
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
};
template <>
struct CudnnPass<cudnnConvolutionBwdDataAlgo_t> {
  using Proposal = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr const char* kName = "backward";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr cudnnConvolutionBwdDataAlgo_t kPlain[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                                             CUDNN_CONVOLUTION_BWD_DATA_ALGO_0};
};
template <>
struct CudnnPass<cudnnConvolutionBwdFilterAlgo_t> {
  using Proposal = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr const char* kName = "weight";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr cudnnConvolutionBwdFilterAlgo_t kPlain[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0};
};

template <typename Algorithm>
class AlgorithmChoices {
 public:
  using Proposal = typename CudnnPass<Algorithm>::Proposal;

  // Adds those of cuDNN's proposals, the fastest first, that succeed in the descriptor's own
  // arithmetic, then the plain ones. A proposal with another math type counts its time and
  // workspace for that type: such algorithms come behind the others. `measured`: cuDNN has measured
  // the times of the proposals.
  void Propose(const std::vector<Proposal>& proposals, cudnnMathType_t math, bool measured) {
    proposed_ = true;
    for (const bool fits : {true, false}) {
      for (const Proposal& each : proposals) {
        if (each.status == CUDNN_STATUS_SUCCESS && Fits(each.mathType, math) == fits) {
          Add(each.algo, measured);
        }
      }
    }
    for (const Algorithm each : CudnnPass<Algorithm>::kPlain) Add(each, false);
  }

  void Add(Algorithm algorithm, bool measured) {
    for (const Choice& each : choices_) {
      if (each.algorithm == algorithm) return;
    }
    choices_.push_back({algorithm, measured});
  }

  // Removes algorithms until the first works with at most `most` bytes, by ask(algorithm, &bytes).
  // Returns false if none does.
  template <typename Ask>
  bool Choose(size_t most, Ask ask) {
    for (; !choices_.empty(); Drop()) {
      bytes_ = 0;
      if (ask(algorithm(), &bytes_) == CUDNN_STATUS_SUCCESS && bytes_ <= most) return true;
    }
    bytes_ = 0;
    return false;
  }

  bool empty() const { return choices_.empty(); }
  // Whether Propose has been called.
  bool proposed() const { return proposed_; }
  // The first algorithm, whether it was measured, and the bytes of its workspace.
  Algorithm algorithm() const { return choices_.front().algorithm; }
  bool measured() const { return choices_.front().measured; }
  size_t bytes() const { return bytes_; }
  void Drop() { choices_.erase(choices_.begin()); }

 private:
  struct Choice {
    Algorithm algorithm;
    bool measured;
  };

  // Whether a proposal with this math type is one for a descriptor with `math`.
  static bool Fits(cudnnMathType_t proposed, cudnnMathType_t math) {
    return proposed == math || proposed == CUDNN_DEFAULT_MATH || math == CUDNN_DEFAULT_MATH;
  }

  std::vector<Choice> choices_;
  size_t bytes_ = 0;
  bool proposed_ = false;
};

// The three passes of a convolution by cuDNN, on arrays of one type.

// cuDNN for a queue. All of it outlives what is made with it.
struct CudnnContext {
  const CudnnApi& api;
  cudnnHandle_t handle;  // of the queue's stream
  CudaQueue& queue;
  ConvolutionCache* cache;  // may be null
  std::string gpu;          // its model, if there is a cache
  MeasureTime* measure;     // may be null: nothing is measured
};

// Sums are in float32 with all types.
struct ConvolutionArithmetic {
  const char* name;      // "fp32", "tf32" or "bf16"
  cudnnDataType_t type;  // of bottom, weights and top
  cudnnTensorFormat_t format;
  cudnnMathType_t math;
};

// Used by the thread that uses the queue. The passes enqueue their work and allocate no memory of
// the device. `workspace` has workspace_bytes() bytes. A pass returns false, and has enqueued
// nothing, if cuDNN has no algorithm that takes the work in that workspace. Throw Error if the
// device has failed.
class ConvolutionPasses {
 public:
  // Chooses the algorithms of the cache, if cuDNN still accepts them; or else those that it
  // measures as the fastest, in memory that is allocated for that; or else, when no time is left
  // for that, or no memory, those that its heuristics name first. Each has a workspace of at most
  // `max_workspace` bytes. An algorithm that refuses its work, or fails at it, is replaced by the
  // next one. The cache has the last choices. Throws Error.
  ConvolutionPasses(const ConvolutionProblem& problem, const ConvolutionArithmetic& arithmetic,
                    size_t max_workspace, const CudnnContext& context);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Whether there is an algorithm for the pass.
  bool has_forward() const { return !forward_.empty(); }
  bool has_data() const { return !data_.empty(); }
  bool has_weights() const { return !filter_.empty(); }
  // What computes each pass that has an algorithm.
  std::vector<PassAlgorithm> algorithms() const;

  [[nodiscard]] bool Forward(const void* bottom, const void* weights, void* top, void* workspace);
  [[nodiscard]] bool BackwardData(const void* top_diff, const void* weights, void* bottom_diff,
                                  void* workspace);
  // Adds to weight_diff if `add`, else overwrites it.
  [[nodiscard]] bool BackwardWeights(const void* bottom, const void* top_diff, bool add,
                                     void* weight_diff, void* workspace);

 private:
  // A descriptor, destroyed with its owner.
  template <typename Descriptor, auto kDestroy>
  struct Destroy {
    const CudnnApi* api;
    void operator()(Descriptor descriptor) const { (api->*kDestroy)(descriptor); }
  };
  template <typename Descriptor, auto kDestroy>
  using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy<Descriptor, kDestroy>>;
  using Tensor = Owned<cudnnTensorDescriptor_t, &CudnnApi::cudnnDestroyTensorDescriptor>;
  using Filter = Owned<cudnnFilterDescriptor_t, &CudnnApi::cudnnDestroyFilterDescriptor>;
  using Convolution =
      Owned<cudnnConvolutionDescriptor_t, &CudnnApi::cudnnDestroyConvolutionDescriptor>;

  const std::string& device() const { return queue_.device().name(); }
  void Check(cudnnStatus_t status) const { api_.Check(status, device(), "a convolution failed"); }
  Tensor MakeTensor(int64_t n, int64_t c, int64_t h, int64_t w) const;
  bool IsRecording() const;
  // Ends the work of an algorithm that has failed. Throws Error if the device has failed, too.
  void Recover();

  template <typename Algorithm, typename Call>
  bool Run(AlgorithmChoices<Algorithm>* choices, bool adds, Call call);
  bool MayGoOn(const char* pass, int algorithm, bool adds, cudnnStatus_t status);

  template <typename Algorithm>
  bool Choose(AlgorithmChoices<Algorithm>* choices) const;
  template <typename Proposal, typename Ask>
  std::vector<Proposal> Proposals(Ask ask) const;

  struct MeasureArrays;
  void Measure();
  template <typename Algorithm>
  void Measure(const MeasureArrays& arrays, AlgorithmChoices<Algorithm>* choices);
  template <typename Algorithm>
  size_t MaxWorkspace() const;

  template <typename Algorithm>
  ConvolutionKey Key() const;
  template <typename Algorithm>
  void Recall(AlgorithmChoices<Algorithm>* choices) const;
  template <typename Algorithm>
  void Remember(const AlgorithmChoices<Algorithm>& choices) const;

  // cuDNN's functions of the three passes.
  cudnnStatus_t AskWorkspace(cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) const;
  cudnnStatus_t AskWorkspace(cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) const;
  cudnnStatus_t AskWorkspace(cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) const;
  cudnnStatus_t AskProposals(int most, int* count, cudnnConvolutionFwdAlgoPerf_t* to) const;
  cudnnStatus_t AskProposals(int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* to) const;
  cudnnStatus_t AskProposals(int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* to) const;
  cudnnStatus_t AskTimes(const MeasureArrays& in, int most, int* count,
                         cudnnConvolutionFwdAlgoPerf_t* to) const;
  cudnnStatus_t AskTimes(const MeasureArrays& in, int most, int* count,
                         cudnnConvolutionBwdDataAlgoPerf_t* to) const;
  cudnnStatus_t AskTimes(const MeasureArrays& in, int most, int* count,
                         cudnnConvolutionBwdFilterAlgoPerf_t* to) const;

  const ConvolutionProblem problem_;
  const CudnnContext context_;
  const CudnnApi& api_;
  const cudnnHandle_t handle_;
  CudaQueue& queue_;
  const ConvolutionArithmetic arithmetic_;
  const size_t max_workspace_;
  Tensor bottom_, top_;
  Filter weights_;
  Convolution convolution_;
  AlgorithmChoices<cudnnConvolutionFwdAlgo_t> forward_;
  AlgorithmChoices<cudnnConvolutionBwdDataAlgo_t> data_;
  AlgorithmChoices<cudnnConvolutionBwdFilterAlgo_t> filter_;
  size_t workspace_bytes_ = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_CONVOLUTION_PASSES_H_
