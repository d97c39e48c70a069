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
#include "nn/gpu/cuda_algorithm_choices.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_library.h"
#include "nn/gpu/measure_time.h"

namespace millrace::inline nn {

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
