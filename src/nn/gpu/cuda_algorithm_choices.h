// Algorithms of cuDNN for a pass of a convolution, in the order in which they are to be tried.
#ifndef MILLRACE_NN_GPU_CUDA_ALGORITHM_CHOICES_H_
#define MILLRACE_NN_GPU_CUDA_ALGORITHM_CHOICES_H_

#include <cudnn.h>

#include <cstddef>
#include <vector>

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_ALGORITHM_CHOICES_H_
