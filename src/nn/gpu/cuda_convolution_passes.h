// The three passes of a convolution by cuDNN, on arrays of one type.
#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_PASSES_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_PASSES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "device/cuda_queue.h"
#include "nn/gpu/convolution_cache.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_library.h"

namespace millrace::inline nn {

// cuDNN for a queue. All of it outlives what is made with it.
struct CudnnContext {
  const CudnnApi& api;
  cudnnHandle_t handle;  // of the queue's stream
  CudaQueue& queue;
  ConvolutionCache* cache;  // may be null
  std::string gpu;          // its model, if there is a cache
};

// Sums are in float32 with all types.
struct ConvolutionArithmetic {
  const char* name;      // "fp32", "tf32" or "bf16"
  cudnnDataType_t type;  // of bottom, weights and top
  cudnnMathType_t math;
};

// Algorithms of one pass in the order of preference.
template <typename Algorithm>
class AlgorithmChoices {
 public:
  // Adds those of cuDNN's proposals, the fastest first, that succeed in the descriptor's own
  // arithmetic, then `plain`, which cuDNN may not have proposed. A proposal with another math type
  // counts its time and workspace for that type: such algorithms come behind the others.
  template <typename Proposal>
  void Propose(const std::vector<Proposal>& proposals, cudnnMathType_t math,
               std::initializer_list<Algorithm> plain) {
    proposed_ = true;
    for (const bool fits : {true, false}) {
      for (const Proposal& each : proposals) {
        if (each.status == CUDNN_STATUS_SUCCESS && Fits(each.mathType, math) == fits) {
          Add(each.algo);
        }
      }
    }
    for (const Algorithm each : plain) Add(each);
  }

  // Adds an algorithm.
  void Add(Algorithm algorithm) {
    for (const Algorithm each : algorithms_) {
      if (each == algorithm) return;
    }
    algorithms_.push_back(algorithm);
  }

  // Removes algorithms until the first works with at most `most` bytes, by ask(algorithm, &bytes).
  // Returns false if none does.
  template <typename Ask>
  bool Choose(size_t most, Ask ask) {
    for (; !algorithms_.empty(); Drop()) {
      bytes_ = 0;
      if (ask(algorithms_.front(), &bytes_) == CUDNN_STATUS_SUCCESS && bytes_ <= most) return true;
    }
    bytes_ = 0;
    return false;
  }

  bool empty() const { return algorithms_.empty(); }
  // Whether Propose has been called.
  bool proposed() const { return proposed_; }
  Algorithm algorithm() const { return algorithms_.front(); }
  size_t bytes() const { return bytes_; }
  void Drop() { algorithms_.erase(algorithms_.begin()); }

 private:
  // Whether a proposal with this math type is one for a descriptor with `math`.
  static bool Fits(cudnnMathType_t proposed, cudnnMathType_t math) {
    return proposed == math || proposed == CUDNN_DEFAULT_MATH || math == CUDNN_DEFAULT_MATH;
  }

  std::vector<Algorithm> algorithms_;
  size_t bytes_ = 0;  // workspace of the first
  bool proposed_ = false;
};

// Used by the thread that uses the queue. The passes enqueue their work and allocate no memory of
// the device. `workspace` has workspace_bytes() bytes. A pass returns false, and has enqueued
// nothing, if cuDNN has no algorithm that takes the work in that workspace. Throw Error if the
// device has failed.
class ConvolutionPasses {
 public:
  // Chooses the algorithms of the cache, if cuDNN still accepts them; or else, by cuDNN's
  // heuristics, the fastest. Each has a workspace of at most `most_workspace` bytes. An algorithm
  // that refuses its work is replaced by the next one. The cache has the last choices. Throws
  // Error.
  ConvolutionPasses(const ConvolutionProblem& problem, const ConvolutionArithmetic& arithmetic,
                    size_t most_workspace, const CudnnContext& context);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Whether there is an algorithm for the pass.
  bool has_forward() const { return !forward_.empty(); }
  bool has_data() const { return !data_.empty(); }
  bool has_weights() const { return !filter_.empty(); }

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
  template <typename Algorithm, typename ChooseNext, typename Call>
  bool Run(const char* pass, AlgorithmChoices<Algorithm>* choices, ChooseNext choose, Call call);
  template <typename Proposal, typename Ask>
  std::vector<Proposal> Proposals(Ask ask) const;
  template <typename Algorithm, typename Propose, typename Ask>
  bool Choose(AlgorithmChoices<Algorithm>* choices, Propose propose, Ask ask) const;
  ConvolutionKey Key(const char* pass) const;
  template <typename Algorithm>
  void Recall(const char* pass, int algorithms, AlgorithmChoices<Algorithm>* choices) const;
  template <typename Algorithm>
  void Remember(const char* pass, const AlgorithmChoices<Algorithm>& choices) const;
  bool ChooseForward();
  bool ChooseData();
  bool ChooseFilter();

  const ConvolutionProblem problem_;
  const CudnnContext context_;
  const CudnnApi& api_;
  const cudnnHandle_t handle_;
  CudaQueue& queue_;
  const ConvolutionArithmetic arithmetic_;
  const size_t most_workspace_;
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
