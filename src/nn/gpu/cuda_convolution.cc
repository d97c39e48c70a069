#include "nn/gpu/cuda_convolution.h"

#include <glog/logging.h>

#include <algorithm>

#include "device/kernel.h"
#include "nn/gpu/bfloat16_kernels.h"

namespace millrace::inline nn {
namespace {

// cuDNN's default arithmetic for float32 uses TF32 where there are tensor cores for it.
ConvolutionArithmetic ArithmeticOf(GpuPrecision precision) {
  if (precision == GpuPrecision::kTf32) {
    return {"tf32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_DEFAULT_MATH};
  }
  return {"fp32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_FMA_MATH};
}

// A convolution on the arrays as they are.
class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const ConvolutionProblem& problem, const CudnnContext& context,
                   GpuPrecision precision)
      : device_(context.queue.device()),
        passes_(problem, ArithmeticOf(precision), kMaxConvolutionWorkspace, context) {
    RequireAlgorithm(device_, passes_.has_forward(), "forward");
    RequireAlgorithm(device_, passes_.has_data(), "backward");
    RequireAlgorithm(device_, passes_.has_weights(), "weight");
  }

  size_t workspace_bytes() const override { return passes_.workspace_bytes(); }
  std::vector<PassAlgorithm> algorithms() const override { return passes_.algorithms(); }
  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    RequireAlgorithm(device_, passes_.Forward(bottom, weights, top, workspace), "forward");
  }
  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    RequireAlgorithm(device_, passes_.BackwardData(top_diff, weights, bottom_diff, workspace),
                     "backward");
  }
  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    RequireAlgorithm(
        device_, passes_.BackwardWeights(bottom, top_diff, add, weight_diff, workspace), "weight");
  }

 private:
  const Device& device_;
  ConvolutionPasses passes_;
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

void RequireAlgorithm(const Device& device, bool found, const char* pass) {
  if (found) return;
  throw Error(device.name(), ": cuDNN has no algorithm for the ", pass, " pass of a convolution");
}

std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnContext& context,
                                                      GpuPrecision precision, KeptInput kept) {
  if (problem.images == 0) return std::make_unique<EmptyConvolution>(problem, context.queue);
  if (precision == GpuPrecision::kBfloat16) return PlanBfloat16Convolution(problem, context, kept);
  return std::make_unique<CudnnConvolution>(problem, context, precision);
}

namespace {

constexpr ConvolutionArithmetic kBfloat16{"bf16", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_NHWC,
                                          CUDNN_TENSOR_OP_MATH};
constexpr ConvolutionArithmetic kTf32{"tf32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                      CUDNN_DEFAULT_MATH};

// Copies begin at multiples of so many bytes, as cuDNN's fastest algorithms need.
constexpr size_t kAlignment = 256;
size_t BytesOf(const TwoOrders& array) {
  return (array.values() * sizeof(uint16_t) + kAlignment - 1) / kAlignment * kAlignment;
}

TwoOrders Orders(int64_t images, int64_t channels, int64_t plane) {
  return {static_cast<uint32_t>(images), static_cast<uint32_t>(channels),
          static_cast<uint32_t>(plane)};
}

class Bfloat16Convolution final : public ConvolutionPlan {
 public:
  Bfloat16Convolution(const ConvolutionProblem& p, const CudnnContext& context, KeptInput kept)
      : problem_(p),
        context_(context),
        queue_(context.queue),
        bottom_{Orders(p.images, p.channels, p.height * p.width)},
        weights_(Orders(p.outputs, p.channels / p.group, p.kernel[0] * p.kernel[1])),
        top_{Orders(p.images, p.outputs, p.out_height * p.out_width)},
        copies_(BytesOf(bottom_.orders) + BytesOf(weights_) + BytesOf(top_.orders)),
        half_(p, kBfloat16, kMaxConvolutionWorkspace, context),
        workspace_bytes_(copies_ + half_.workspace_bytes()) {
    if (half_.has_weights()) {
      if (kept == KeptInput::kBottom && half_.has_forward()) Keep(&bottom_);
      if (kept == KeptInput::kTop && half_.has_data()) Keep(&top_);
    }
    if (half_.has_forward() && half_.has_data() && half_.has_weights()) return;
    MakeFull(kMaxConvolutionWorkspace, context);
    workspace_bytes_ = std::max(workspace_bytes_, full_->workspace_bytes());
    if (!half_.has_forward()) Use(full_->has_forward(), "forward");
    if (!half_.has_data()) Use(full_->has_data(), "backward");
    if (!half_.has_weights()) Use(full_->has_weights(), "weight");
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  std::vector<PassAlgorithm> algorithms() const override {
    std::vector<PassAlgorithm> found = half_.algorithms();
    if (!full_) return found;
    for (const PassAlgorithm& each : full_->algorithms()) {
      const auto same = [&](const PassAlgorithm& other) { return other.pass == each.pass; };
      if (std::none_of(found.begin(), found.end(), same)) found.push_back(each);
    }
    return found;
  }

  void Renew(const float* array) override {
    for (Input* input : {&bottom_, &top_}) {
      if (input->copied == array || input->kept.bytes() == 0) input->copied = nullptr;
    }
  }

  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_forward()) {
      const uint16_t* const in = CopyOf(&bottom_, bottom, at.bottom);
      Narrow(weights_, weights, at.weights);
      WillOverwrite(&top_);
      if (half_.Forward(in, at.weights, at.top, at.workspace)) {
        return Widen(top_.orders, at.top, false, top);
      }
      Use(Full().has_forward(), "forward");
    }
    ForgetCopiesInWorkspace();
    RequireAlgorithm(queue_.device(), Full().Forward(bottom, weights, top, workspace), "forward");
  }

  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_data()) {
      const uint16_t* const in = CopyOf(&top_, top_diff, at.top);
      Narrow(weights_, weights, at.weights);
      WillOverwrite(&bottom_);
      if (half_.BackwardData(in, at.weights, at.bottom, at.workspace)) {
        return Widen(bottom_.orders, at.bottom, false, bottom_diff);
      }
      Use(Full().has_data(), "backward");
    }
    ForgetCopiesInWorkspace();
    RequireAlgorithm(queue_.device(),
                     Full().BackwardData(top_diff, weights, bottom_diff, workspace), "backward");
  }

  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_weights()) {
      const uint16_t* const in = CopyOf(&bottom_, bottom, at.bottom);
      const uint16_t* const diffs = CopyOf(&top_, top_diff, at.top);
      if (half_.BackwardWeights(in, diffs, false, at.weights, at.workspace)) {
        return Widen(weights_, at.weights, add, weight_diff);
      }
      Use(Full().has_weights(), "weight");
    }
    ForgetCopiesInWorkspace();
    RequireAlgorithm(queue_.device(),
                     Full().BackwardWeights(bottom, top_diff, add, weight_diff, workspace),
                     "weight");
  }

 private:
  struct Copies {
    uint16_t *bottom, *weights, *top;
    void* workspace;  // of cuDNN
  };
  // An array that two passes read.
  struct Input {
    TwoOrders orders;
    Buffer kept = {};               // memory of its own for the copy; else it is in the workspace
    const float* copied = nullptr;  // the array whose values the copy has; null: none
  };

  Copies In(void* workspace) const {
    auto* const bytes = static_cast<std::byte*>(workspace);
    const auto halves = [](std::byte* at) { return reinterpret_cast<uint16_t*>(at); };
    return {halves(bytes), halves(bytes + BytesOf(bottom_.orders)),
            halves(bytes + BytesOf(bottom_.orders) + BytesOf(weights_)), bytes + copies_};
  }

  void Keep(Input* input) {
    try {
      input->kept = Buffer(queue_.device().memory(), BytesOf(input->orders));
    } catch (const OutOfMemory&) {
      LOG(INFO) << queue_.device().name()
                << ": too little memory to keep a convolution's input in bfloat16: it is copied "
                   "again in the backward pass";
    }
  }
  // The copy of the array in `input`; in_workspace is its place unless it is kept.
  const uint16_t* CopyOf(Input* input, const float* array, uint16_t* in_workspace) {
    uint16_t* const copy = input->kept.bytes() > 0 ? input->kept.get<uint16_t>() : in_workspace;
    if (input->copied != array) Narrow(input->orders, array, copy);
    input->copied = array;
    return copy;
  }
  // A result takes the place of the array's copy in the workspace.
  static void WillOverwrite(Input* input) {
    if (input->kept.bytes() == 0) input->copied = nullptr;
  }
  void ForgetCopiesInWorkspace() { WillOverwrite(&bottom_), WillOverwrite(&top_); }

  void Narrow(const TwoOrders& orders, const float* from, uint16_t* to) {
    Launch(queue_, orders.elements(), NarrowToBfloat16{orders, from, to});
  }
  void Widen(const TwoOrders& orders, const uint16_t* from, bool add, float* to) {
    Launch(queue_, orders.elements(), WidenFromBfloat16{orders, add, from, to});
  }

  void MakeFull(size_t max_workspace, const CudnnContext& context) {
    full_ = std::make_unique<ConvolutionPasses>(problem_, kTf32, max_workspace, context);
  }
  // In the workspace that there is, when an algorithm has refused its work. The cache has the
  // choices of plans that may take more.
  ConvolutionPasses& Full() {
    if (!full_) {
      CudnnContext other = context_;
      other.cache = nullptr;
      other.measure = nullptr;  // passes allocate nothing
      MakeFull(workspace_bytes_, other);
    }
    return *full_;
  }
  void Use(bool found, const char* pass) {
    RequireAlgorithm(queue_.device(), found, pass);
    LOG(INFO) << queue_.device().name() << ": cuDNN has no algorithm in bfloat16 for the " << pass
              << " pass of a convolution of " << problem_.channels << " channels, "
              << problem_.outputs << " outputs, kernel " << problem_.kernel[0] << "x"
              << problem_.kernel[1] << ": using TF32";
  }

  const ConvolutionProblem problem_;
  const CudnnContext context_;
  CudaQueue& queue_;
  Input bottom_;
  const TwoOrders weights_;
  Input top_;
  const size_t copies_;  // bytes of the copies of all three, before cuDNN's part
  ConvolutionPasses half_;
  std::unique_ptr<ConvolutionPasses> full_;  // made for the first pass that needs it
  size_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> PlanBfloat16Convolution(const ConvolutionProblem& problem,
                                                         const CudnnContext& context,
                                                         KeptInput kept) {
  return std::make_unique<Bfloat16Convolution>(problem, context, kept);
}

}  // namespace millrace::inline nn
