// Tests of matrix products and convolutions on the fake runtime and the fake libraries.
#ifndef MILLRACE_TEST_CUDA_LIBRARY_FIXTURE_H_
#define MILLRACE_TEST_CUDA_LIBRARY_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "device/cuda_queue.h"
#include "nn/gpu/cuda_library.h"
#include "test/cuda/fake_cuda.h"
#include "test/cuda/fake_libraries.h"
#include "test/support/log_watch.h"
#include "test/support/support.h"

namespace millrace::test {

using Floats = std::vector<float>;

// An array in the memory of the fake GPU, which is the host's.
class Array {
 public:
  Array(Device& device, size_t count, Rng* rng)
      : count_(count), memory_(device.memory(), count * sizeof(float)) {
    for (size_t i = 0; i < count; ++i) data()[i] = rng->Gaussian();
  }
  float* data() const { return memory_.get<float>(); }
  Floats values() const { return Floats(data(), data() + count_); }

 private:
  const size_t count_;
  const Buffer memory_;
};

class CudaLibraries : public testing::Test {
 protected:
  CudaLibraries() {
    cuda_.Reset();
    fake_.Reset();
    device_ = &DeviceRegistry::Get().Find(DeviceType::kCuda, 1);
    queue_ = device_->MakeQueue(QueuePriority::kNormal);
    Make({});
  }
  ~CudaLibraries() override {
    plan_.reset();
    library_.reset();
    EXPECT_EQ(fake_.wrong, std::vector<std::string>());
    EXPECT_EQ(fake_.handles, 0);
    EXPECT_EQ(fake_.descriptors, 0);
  }

  void Make(const GpuSettings& settings, ConvolutionCache* cache = nullptr,
            const Clock* clock = nullptr) {
    library_ = MakeCudaLibrary(*queue_, FakeCublas(), FakeCudnn(), settings, cache, clock);
  }

  // Every piece of work of the libraries is on the queue's stream.
  void ExpectOnQueue() {
    for (const FakeCuda::Work& work : cuda_.work()) {
      EXPECT_EQ(work.stream, CudaQueue::Of(*queue_).stream()) << work.name;
    }
  }

  FakeCuda& cuda_ = FakeCuda::Get();
  FakeLibraries& fake_ = FakeLibraries::Get();
  Device* device_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<GpuLibrary> library_;
  std::unique_ptr<ConvolutionPlan> plan_;
  Rng rng_{Seed(), {1}};
};

inline ConvolutionProblem RandomProblem(Rng* rng) {
  const auto size = [&](int most) { return static_cast<int64_t>(1 + rng->Below(most)); };
  ConvolutionProblem p{};
  p.images = size(3), p.group = size(2);
  p.channels = p.group * size(2), p.outputs = p.group * size(3);
  int64_t* const in[2] = {&p.height, &p.width};
  int64_t* const out[2] = {&p.out_height, &p.out_width};
  for (int axis : {0, 1}) {
    p.kernel[axis] = size(3), p.stride[axis] = size(3), p.dilation[axis] = size(2);
    p.pad[axis] = size(3) - 1;
    const int64_t extent = p.dilation[axis] * (p.kernel[axis] - 1) + 1;
    *in[axis] = extent + size(6);
    *out[axis] = (*in[axis] + 2 * p.pad[axis] - extent) / p.stride[axis] + 1;
  }
  return p;
}

// The formula of nn/layers/convolution/convolution_layer.h.
template <typename Visit>
void ForEachProduct(const ConvolutionProblem& p, Visit visit) {
  const int64_t in = p.channels / p.group, out = p.outputs / p.group;
  for (int64_t n = 0; n < p.images; ++n) {
    for (int64_t o = 0; o < p.outputs; ++o) {
      for (int64_t y = 0; y < p.out_height; ++y) {
        for (int64_t x = 0; x < p.out_width; ++x) {
          for (int64_t c = 0; c < in; ++c) {
            for (int64_t i = 0; i < p.kernel[0]; ++i) {
              for (int64_t j = 0; j < p.kernel[1]; ++j) {
                const int64_t row = y * p.stride[0] - p.pad[0] + i * p.dilation[0];
                const int64_t column = x * p.stride[1] - p.pad[1] + j * p.dilation[1];
                if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
                visit(((n * p.channels + o / out * in + c) * p.height + row) * p.width + column,
                      ((o * in + c) * p.kernel[0] + i) * p.kernel[1] + j,
                      ((n * p.outputs + o) * p.out_height + y) * p.out_width + x);
              }
            }
          }
        }
      }
    }
  }
}

struct Arrays {
  Arrays(Device& device, const ConvolutionProblem& p, size_t workspace_bytes, Rng* rng)
      : bottom(device, p.images * p.channels * p.height * p.width, rng),
        weights(device, p.outputs * p.channels / p.group * p.kernel[0] * p.kernel[1], rng),
        top(device, p.images * p.outputs * p.out_height * p.out_width, rng),
        workspace(device.memory(), workspace_bytes) {}
  Array bottom, weights, top;
  Buffer workspace;
};

class CudaAlgorithms : public CudaLibraries {
 protected:
  // The algorithms of the three passes, and the bytes they were given.
  std::vector<int> Used() {
    Rng rng(1, {1});
    const ConvolutionProblem p = RandomProblem(&rng);
    plan_ = library_->PlanConvolution(p);
    const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
    fake_.used.clear();
    plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
    plan_->BackwardData(at.top.data(), at.weights.data(), at.bottom.data(), at.workspace.get());
    plan_->BackwardWeights(at.bottom.data(), at.top.data(), false, at.weights.data(),
                           at.workspace.get());
    return fake_.used;
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CUDA_LIBRARY_FIXTURE_H_
