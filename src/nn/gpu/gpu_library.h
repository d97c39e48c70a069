// Matrix products and convolutions on GPUs: what layers take from a vendor's libraries. A backend
// implements the interface; tests have one for their fake device.
#ifndef MILLRACE_NN_GPU_GPU_LIBRARY_H_
#define MILLRACE_NN_GPU_GPU_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/gpu_types.h"
#include "millrace/queue.h"
#include "nn/layers/convolution/convolution_geometry.h"

namespace millrace::inline nn {

// A convolution in plain order (nn/layers/convolution/convolution_layer.h has the formula): bottom
// {images, channels, height, width}, top {images, outputs, out_height, out_width}, weights
// {outputs, channels / group, kernel[0], kernel[1]}. Pairs are (height, width).
struct ConvolutionProblem {
  int64_t images, channels, height, width;
  int64_t outputs, out_height, out_width;
  int64_t group;
  int64_t kernel[2], stride[2], pad[2], dilation[2];

  bool operator==(const ConvolutionProblem&) const = default;
};

// The library on one queue. Used by the thread that uses the queue.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;

  // c = a b, or c = c + a b if `add`, for row-major matrices: a {m, k}, or {k, m} if transpose_a;
  // b {k, n}, or {n, k} if transpose_b; c {m, n}. Enqueues the work. Throws Error if the device has
  // failed.
  virtual void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float* a, const float* b, bool add, float* c) = 0;
  // c = a b, and `bias` {n} added to each row, at once. Returns false, and enqueues nothing, if the
  // library does not do that for these matrices: then Multiply and an addition do. As Multiply
  // otherwise.
  virtual bool MultiplyWithBias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                const float* a, const float* b, const float* bias, float* c) {
    (void)transpose_a, (void)transpose_b, (void)m, (void)n, (void)k;
    (void)a, (void)b, (void)bias, (void)c;
    return false;
  }
  // Chooses the algorithms of the library's queue. Throws Error with one line if none supports the
  // problem.
  virtual std::unique_ptr<ConvolutionPlan> PlanConvolution(const ConvolutionProblem& problem,
                                                           KeptInput kept = KeptInput::kNone) = 0;
};

// The library of a queue, made at the first call. Throws Error if it cannot be made: the device has
// failed, or has too little memory.
GpuLibrary& GpuLibraryOf(Queue& queue);

// Makes layers and update rules for GPUs available on a type of device. Define one at namespace
// scope in the backend's file.
struct RegisterGpuLibrary {
  using Maker = std::function<std::unique_ptr<GpuLibrary>(Queue& queue)>;
  RegisterGpuLibrary(DeviceType type, Maker maker);

 private:
  RegisterGpuType type_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_LIBRARY_H_
