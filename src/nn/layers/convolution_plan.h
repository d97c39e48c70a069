// A convolution on arrays in plain order, by an algorithm that has been chosen for its shape.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

namespace millrace::inline nn {

// What computes a pass.
struct PassAlgorithm {
  std::string pass;        // "forward", "backward" (of the data) or "weight"
  std::string arithmetic;  // "fp32", "tf32" or "bf16"
  int number;              // the library's
};

// The input of a plan that a layer's forward pass reads, and its backward pass reads again.
enum class KeptInput {
  kNone,    // there is no backward pass
  kBottom,  // of a convolution
  kTop,     // of a deconvolution: its bottom is the plan's top
};

// All functions enqueue work on the queue that the plan was made for, which outlives it, allocate
// nothing, and throw Error if the device has failed. Arrays are in the device's memory; `workspace`
// has workspace_bytes() bytes there.
//
// A plan may keep copies of a bottom, or of the gradient at a top, that one pass has read, for the
// next pass that reads the same array: the kept input's from the forward pass on, others in the
// workspace.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;

  virtual size_t workspace_bytes() const = 0;
  // What computes the passes now, where a library does: an algorithm that fails is replaced.
  virtual std::vector<PassAlgorithm> algorithms() const { return {}; }
  // Call before a pass that reads this array (weights aside) with new values; and before the first
  // pass after other work has used the workspace.
  virtual void Renew(const float* array) { (void)array; }
  virtual void Forward(const float* bottom, const float* weights, float* top, void* workspace) = 0;
  virtual void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                            void* workspace) = 0;
  // Adds to weight_diff if `add`, else overwrites it.
  virtual void BackwardWeights(const float* bottom, const float* top_diff, bool add,
                               float* weight_diff, void* workspace) = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_H_
