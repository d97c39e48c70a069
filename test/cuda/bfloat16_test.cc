// Products and convolutions in bfloat16, on libraries that round as tensor cores do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "device/kernel.h"
#include "nn/gpu/bfloat16_kernels.h"
#include "test/cuda/library_fixture.h"

namespace millrace::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Rounded(float value) { return FromBfloat16(ToBfloat16(value)); }

TEST(Bfloat16, IsTheNearestAndInTheMiddleTheEvenOne) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = FromBfloat16(static_cast<uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Rounded(value))) << half;
    } else {
      EXPECT_EQ(ToBfloat16(value), half);
    }
  }
  EXPECT_EQ(Rounded(1 + 0x1p-8f), 1);                // the middle: to the even one below
  EXPECT_EQ(Rounded(1 + 3 * 0x1p-8f), 1 + 0x1p-6f);  // the middle: to the even one above
  EXPECT_EQ(Rounded(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(Rounded(-1 - 0x1p-9f), -1);
  EXPECT_EQ(Rounded(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(Rounded(-kInfinity), -kInfinity);
  // The payload of this NaN is in the lower half.
  EXPECT_TRUE(std::isnan(Rounded(__builtin_bit_cast(float, 0x7f800001u))));
}

// Runs a kernel of a fake GPU on the host, if all its memory is that GPU's.
template <typename Kernel>
void LaunchChecked(Queue& queue, int64_t count, const Kernel& kernel) {
  Kernel own = kernel;
  own.Pointers([&](auto*& pointer) {
    const FakeCuda::Block* const block = FakeCuda::Get().Find(pointer, count * sizeof(*pointer));
    EXPECT_TRUE(block != nullptr && block->type == cudaMemoryTypeDevice &&
                block->device == queue.device().ordinal());
  });
  CudaQueue::Of(queue).Select();
  FakeCuda::Get().Enqueue(CudaQueue::Of(queue).stream(),
                          std::is_same_v<Kernel, NarrowToBfloat16> ? "narrow" : "widen");
  RunOnHost(count, kernel);
}

class CudaBfloat16 : public CudaAlgorithms {
 protected:
  CudaBfloat16() {
    KernelLaunchers<NarrowToBfloat16>::Register(DeviceType::kCuda,
                                                &LaunchChecked<NarrowToBfloat16>);
    KernelLaunchers<WidenFromBfloat16>::Register(DeviceType::kCuda,
                                                 &LaunchChecked<WidenFromBfloat16>);
    fake_.math = CUDNN_DEFAULT_MATH;  // of a pass that is computed in TF32
    Make({.precision = GpuPrecision::kBfloat16});
  }

  // The names of the work since the last call.
  std::vector<std::string> NewWork() {
    std::vector<std::string> names;
    const std::vector<FakeCuda::Work> all = cuda_.work();
    for (; seen_ < all.size(); ++seen_) names.push_back(all[seen_].name);
    return names;
  }

  LogLines log_;

 private:
  size_t seen_ = 0;
};

// Each factor is off by at most 2^-8 of it, so a product by little more than 2^-7; a result that is
// rounded by 2^-8 more.
struct Expected {
  explicit Expected(size_t count) : sums(count), magnitudes(count) {}
  void Add(size_t at, double product) {
    sums[at] += product;
    magnitudes[at] += std::abs(product);
  }
  void ExpectNear(const Floats& actual, bool rounded) const {
    ASSERT_EQ(actual.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      const double off = 1.01 * 0x1p-7 * magnitudes[i];
      const double rounding = rounded ? 0x1p-8 * (std::abs(sums[i]) + off) : 0;
      ASSERT_NEAR(actual[i], sums[i], off + rounding + 1e-6) << i;
    }
  }
  std::vector<double> sums, magnitudes;
};

TEST_F(CudaBfloat16, MultipliesRoundedFactors) {
  EXPECT_EQ(log_.Count("cuda device 1: matrix products and convolutions in bfloat16, with sums in "
                       "float32"),
            1);
  bool differs = false;
  for (int round = 0; round < 16; ++round) {
    const bool ta = round & 1, tb = round & 2, add = round & 4;
    const int64_t m = 3, n = 5, k = 1 + static_cast<int64_t>(rng_.Below(40));
    const Array a(*device_, m * k, &rng_), b(*device_, k * n, &rng_), c(*device_, m * n, &rng_);
    const Floats before = c.values();
    Expected expected(m * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (add) expected.sums[i * n + j] = before[i * n + j];
        for (int64_t l = 0; l < k; ++l) {
          expected.Add(i * n + j, double{a.data()[ta ? l * m + i : i * k + l]} *
                                      b.data()[tb ? j * k + l : l * n + j]);
        }
      }
    }
    library_->Multiply(ta, tb, m, n, k, a.data(), b.data(), add, c.data());
    expected.ExpectNear(c.values(), false);
    for (int64_t i = 0; i < m * n; ++i) {
      differs = differs || std::abs(c.data()[i] - expected.sums[i]) > 1e-4;
    }
  }
  EXPECT_TRUE(differs) << "the products are those of float32";
  ExpectOnQueue();
}

TEST_F(CudaBfloat16, ConvolvesRoundedCopies) {
  fake_.workspace = {{1, 4000}};
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const ConvolutionProblem p = RandomProblem(&rng_);
    cudaSetDevice(0);
    plan_ = library_->PlanConvolution(p);
    const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
    const Floats bottom = at.bottom.values(), weights = at.weights.values();
    const uint64_t allocations = cuda_.allocations;
    NewWork();

    Expected top(at.top.values().size());
    ForEachProduct(p, [&](auto b, auto w, auto t) { top.Add(t, double{bottom[b]} * weights[w]); });
    cudaSetDevice(0);
    plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
    EXPECT_EQ(NewWork(), (std::vector<std::string>{"narrow", "narrow", "forward", "widen"}));
    const Floats diffs = at.top.values();
    top.ExpectNear(diffs, true);
    for (const float each : diffs) EXPECT_EQ(each, Rounded(each));

    const bool add = round % 2;
    Expected data(bottom.size()), gradient(weights.size());
    ForEachProduct(p, [&](auto b, auto w, auto t) {
      data.Add(b, double{diffs[t]} * weights[w]);
      gradient.Add(w, double{diffs[t]} * bottom[b]);
    });
    plan_->BackwardData(at.top.data(), at.weights.data(), at.bottom.data(), at.workspace.get());
    EXPECT_EQ(NewWork(), (std::vector<std::string>{"narrow", "narrow", "backward data", "widen"}));
    data.ExpectNear(at.bottom.values(), true);

    std::copy(bottom.begin(), bottom.end(), at.bottom.data());
    plan_->BackwardWeights(at.bottom.data(), at.top.data(), add, at.weights.data(),
                           at.workspace.get());
    EXPECT_EQ(NewWork(),
              (std::vector<std::string>{"narrow", "narrow", "backward filter", "widen"}));
    Floats added = at.weights.values();
    for (size_t i = 0; add && i < added.size(); ++i) added[i] -= weights[i];
    gradient.ExpectNear(added, true);
    EXPECT_EQ(cuda_.allocations, allocations);
    // The arrays of the net remain in float32 as they were.
    EXPECT_EQ(at.bottom.values(), bottom);
    EXPECT_EQ(at.top.values(), diffs);
  }
  for (const cudnnDataType_t type : fake_.types) EXPECT_EQ(type, CUDNN_DATA_BFLOAT16);
  ExpectOnQueue();
}

TEST_F(CudaBfloat16, TakesTheWorkspaceOfItsCopiesAndOfTheAlgorithm) {
  fake_.workspace = {{1, 640}};
  const ConvolutionProblem p{.images = 2,
                             .channels = 4,
                             .height = 8,
                             .width = 8,
                             .outputs = 4,
                             .out_height = 8,
                             .out_width = 8,
                             .group = 1,
                             .kernel = {3, 3},
                             .stride = {1, 1},
                             .pad = {1, 1},
                             .dilation = {1, 1}};
  plan_ = library_->PlanConvolution(p);
  // 512 values twice, and 144: 288 bytes, which take two units of 256.
  EXPECT_EQ(plan_->workspace_bytes(), 1024u + 1024u + 512u + 640u);
}

// ---- Where cuDNN lacks bfloat16 ----

const std::vector<cudnnDataType_t> kAllHalf(3, CUDNN_DATA_BFLOAT16), kAllFull(3, CUDNN_DATA_FLOAT);

TEST_F(CudaBfloat16, ComputesInTf32WhatCudnnCannot) {
  fake_.proposals = {{5}};
  fake_.workspace = {{5, 100000}};
  fake_.unknown_in_bfloat16 = {0, 1, 5};
  EXPECT_EQ(Used(), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(fake_.types, kAllFull);
  EXPECT_GE(plan_->workspace_bytes(), 100000u);
  EXPECT_EQ(
      log_.Count("cuda device 1: cuDNN has no algorithm in bfloat16 for the forward pass of a "
                 "convolution"),
      1);
  EXPECT_EQ(log_.Count("using TF32"), 3);
}

// The workspace is that of the bfloat16 plan: a larger one would have to be allocated.
TEST_F(CudaBfloat16, ComputesInTf32WhatAlgorithmsRefuse) {
  fake_.proposals = {{5}, {4}};
  fake_.workspace = {{5, 100}, {4, 100}};
  const uint64_t allocations = cuda_.allocations;
  EXPECT_EQ(Used(), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(fake_.types, kAllHalf);
  const size_t bytes = plan_->workspace_bytes();
  fake_.types.clear();
  fake_.refuses_bfloat16 = {0, 1, 4, 5};
  EXPECT_EQ(Used(), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(fake_.types, kAllFull);
  EXPECT_EQ(plan_->workspace_bytes(), bytes);
  for (const size_t given : fake_.given) EXPECT_LE(given, bytes);
  EXPECT_EQ(log_.Count("using TF32"), 3);
  // Arrays and the workspace of two plans; no copies.
  EXPECT_EQ(cuda_.allocations - allocations, 8u);
  fake_.refuses = {0, 1, 4, 5};
  EXPECT_EQ(ErrorOf([&] { Used(); }),
            "cuda device 1: cuDNN has no algorithm for the forward pass of a convolution");
}

TEST_F(CudaBfloat16, ConvolvesNoImages) {
  ConvolutionProblem p = RandomProblem(&rng_);
  p.images = 0;
  plan_ = library_->PlanConvolution(p);
  EXPECT_EQ(plan_->workspace_bytes(), 0u);
}

// The n-th call fails, for every n: nothing is left behind, and the line names the GPU.
TEST_F(CudaBfloat16, EndsInOrderWhateverCallFails) {
  library_.reset();
  bool passed = false;
  int failed = 0;
  for (uint64_t n = 0; !passed; ++n) {
    ASSERT_LT(n, 200u);
    fake_.Reset();
    fake_.math = CUDNN_DEFAULT_MATH;
    fake_.refuses_bfloat16 = {0, 1};
    fake_.fails_at = n;
    try {
      Make({.precision = GpuPrecision::kBfloat16});
      Used();
      const Array a(*device_, 1, &rng_);
      library_->Multiply(false, false, 1, 1, 1, a.data(), a.data(), false, a.data());
      passed = fake_.calls <= n;
    } catch (const DeviceError& error) {
      EXPECT_CONTAINS(error.what(), "cuda device 1: ");
      ++failed;
    }
    plan_.reset();
    library_.reset();
    ASSERT_EQ(fake_.handles, 0) << n;
    ASSERT_EQ(fake_.descriptors, 0) << n;
    ASSERT_EQ(fake_.wrong, std::vector<std::string>()) << n;
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace millrace::test
