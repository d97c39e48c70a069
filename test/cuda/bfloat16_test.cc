// Products and convolutions in bfloat16, on libraries that round as tensor cores do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "device/kernel.h"
#include "nn/gpu/bfloat16_kernels.h"
#include "test/cuda/library_fixture.h"
#include "test/gpu/arithmetic_probe.h"
#include "test/support/kernel_pointers.h"

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
  constexpr size_t kBytes[] = {sizeof(*own.from), sizeof(*own.to)};
  int pointers = 0;
  ReplacePointers(&own, [&](std::byte* pointer) {
    const FakeCuda::Block* const block =
        FakeCuda::Get().Find(pointer, kernel.orders.values() * kBytes[pointers++]);
    EXPECT_TRUE(block != nullptr && block->type == cudaMemoryTypeDevice &&
                block->device == queue.device().ordinal());
    return pointer;
  });
  EXPECT_EQ(pointers, 2);
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

  LogWatch log_;

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

// The order of tensor cores has channels innermost.
TEST(Bfloat16, HasChannelsInnermost) {
  Rng rng(Seed(), {1});
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const auto size = [&](int most) { return static_cast<uint32_t>(1 + rng.Below(most)); };
    const TwoOrders orders{size(3), size(5), size(20)};
    Floats values(orders.values()), sums(orders.values());
    for (float& value : values) value = Rounded(rng.Gaussian());
    for (float& value : sums) value = rng.Gaussian();
    std::vector<uint16_t> narrow(values.size());
    RunOnHost(orders.elements(), NarrowToBfloat16{orders, values.data(), narrow.data()});
    Floats wide(values.size()), added = sums;
    RunOnHost(orders.elements(), WidenFromBfloat16{orders, false, narrow.data(), wide.data()});
    RunOnHost(orders.elements(), WidenFromBfloat16{orders, true, narrow.data(), added.data()});
    EXPECT_EQ(wide, values);
    size_t at = 0;
    for (uint32_t image = 0; image < orders.images; ++image) {
      for (uint32_t pixel = 0; pixel < orders.plane; ++pixel) {
        for (uint32_t channel = 0; channel < orders.channels; ++channel, ++at) {
          const size_t plain = (image * orders.channels + channel) * orders.plane + pixel;
          ASSERT_EQ(FromBfloat16(narrow[at]), values[plain]) << at;
          ASSERT_EQ(added[plain], sums[plain] + values[plain]) << at;
        }
      }
    }
  }
}

// The passes of layers on a plan, and how often they narrow an array.
class RoundedConvolutions : public CudaBfloat16 {
 protected:
  using Names = std::vector<std::string>;

  RoundedConvolutions() { fake_.workspace = {{1, 4000}}; }

  void Plan(const ConvolutionProblem& p, KeptInput kept) {
    p_ = p;
    plan_ = library_->PlanConvolution(p, kept);
    at_ = std::make_unique<Arrays>(*device_, p, plan_->workspace_bytes(), &rng_);
    // The results that are no input of another pass.
    results_ = std::make_unique<Arrays>(*device_, p, 0, &rng_);
    allocations_ = cuda_.allocations;
    NewWork();
  }
  // As other layers' passes leave the workspace.
  void OtherLayers() { std::memset(at_->workspace.get(), 0x5a, at_->workspace.bytes()); }
  static void Change(const Array& array, Rng* rng) {
    for (size_t i = 0; i < array.values().size(); ++i) array.data()[i] = rng->Gaussian();
  }

  void Forward(const Names& work) {
    Expected top(results_->top.values().size());
    ForEachProduct(p_, [&](auto b, auto w, auto t) {
      top.Add(t, double{at_->bottom.data()[b]} * at_->weights.data()[w]);
    });
    cudaSetDevice(0);
    plan_->Forward(at_->bottom.data(), at_->weights.data(), results_->top.data(),
                   at_->workspace.get());
    EXPECT_EQ(NewWork(), work);
    top.ExpectNear(results_->top.values(), true);
    for (const float each : results_->top.values()) EXPECT_EQ(each, Rounded(each));
  }
  void BackwardData(const Names& work) {
    Expected data(at_->bottom.values().size());
    ForEachProduct(p_, [&](auto b, auto w, auto t) {
      data.Add(b, double{at_->top.data()[t]} * at_->weights.data()[w]);
    });
    plan_->BackwardData(at_->top.data(), at_->weights.data(), results_->bottom.data(),
                        at_->workspace.get());
    EXPECT_EQ(NewWork(), work);
    data.ExpectNear(results_->bottom.values(), true);
  }
  void BackwardWeights(bool add, const Names& work) {
    Expected gradient(at_->weights.values().size());
    ForEachProduct(p_, [&](auto b, auto w, auto t) {
      gradient.Add(w, double{at_->top.data()[t]} * at_->bottom.data()[b]);
    });
    const Floats before = results_->weights.values();
    plan_->BackwardWeights(at_->bottom.data(), at_->top.data(), add, results_->weights.data(),
                           at_->workspace.get());
    EXPECT_EQ(NewWork(), work);
    Floats added = results_->weights.values();
    for (size_t i = 0; add && i < added.size(); ++i) added[i] -= before[i];
    gradient.ExpectNear(added, true);
  }
  // An iteration of a layer on new values.
  void Convolution(bool keeps, bool add) {
    Change(at_->bottom, &rng_);
    plan_->Renew(at_->bottom.data());
    Forward({"narrow", "narrow", "forward", "widen"});
    OtherLayers();
    Change(at_->top, &rng_);
    plan_->Renew(at_->top.data());
    const Names once{"narrow", "backward filter", "widen"};
    BackwardWeights(add, keeps ? once : Names{"narrow", "narrow", "backward filter", "widen"});
    BackwardData({"narrow", "backward data", "widen"});
    OtherLayers();
    EXPECT_EQ(cuda_.allocations, allocations_);
  }
  void Deconvolution(bool keeps, bool add) {
    Change(at_->top, &rng_);
    plan_->Renew(at_->top.data());
    BackwardData({"narrow", "narrow", "backward data", "widen"});
    OtherLayers();
    Change(at_->bottom, &rng_);
    plan_->Renew(at_->bottom.data());
    const Names once{"narrow", "backward filter", "widen"};
    BackwardWeights(add, keeps ? once : Names{"narrow", "narrow", "backward filter", "widen"});
    Forward({"narrow", "forward", "widen"});
    OtherLayers();
    EXPECT_EQ(cuda_.allocations, allocations_);
  }

  ConvolutionProblem p_;
  std::unique_ptr<Arrays> at_, results_;
  uint64_t allocations_ = 0;
};

TEST_F(RoundedConvolutions, AreNearThoseInFloat32AndNarrowEachInputOnce) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const ConvolutionProblem p = RandomProblem(&rng_);
    Plan(p, KeptInput::kBottom);
    for (const bool add : {false, true}) Convolution(true, add);
    Plan(p, KeptInput::kTop);
    for (const bool add : {false, true}) Deconvolution(true, add);
  }
  for (const cudnnDataType_t type : fake_.types) EXPECT_EQ(type, CUDNN_DATA_BFLOAT16);
  ExpectOnQueue();
}

TEST_F(RoundedConvolutions, NarrowTheInputAgainWhereItIsNotKept) {
  const ConvolutionProblem p = RandomProblem(&rng_);
  Plan(p, KeptInput::kNone);
  Convolution(false, false);
  Deconvolution(false, true);
  cuda_.largest_block = 0;
  auto without_memory = library_->PlanConvolution(p, KeptInput::kBottom);
  cuda_.largest_block = size_t{1} << 30;
  plan_ = std::move(without_memory);
  Convolution(false, false);
  EXPECT_EQ(log_.Count("too little memory to keep a convolution's input in bfloat16"), 1);
}

// Two bottoms share a plan, and so the copy that it keeps.
TEST_F(RoundedConvolutions, KeepTheLastOfSeveralInputs) {
  const ConvolutionProblem p = RandomProblem(&rng_);
  Plan(p, KeptInput::kBottom);
  auto first = std::make_unique<Arrays>(*device_, p, 0, &rng_);
  auto second = std::make_unique<Arrays>(*device_, p, 0, &rng_);
  const auto with = [&](std::unique_ptr<Arrays>* own, auto pass) {
    std::swap((*own)->workspace, at_->workspace);
    std::swap(at_, *own);
    pass();
    std::swap(at_, *own);
    std::swap((*own)->workspace, at_->workspace);
  };
  for (auto* each : {&first, &second}) {
    with(each, [&] {
      plan_->Renew(at_->bottom.data());
      Forward({"narrow", "narrow", "forward", "widen"});
    });
  }
  for (auto* each : {&second, &first}) {
    with(each, [&] {
      OtherLayers();
      plan_->Renew(at_->top.data());
      if (each == &second) return BackwardWeights(false, {"narrow", "backward filter", "widen"});
      BackwardWeights(true, {"narrow", "narrow", "backward filter", "widen"});
    });
  }
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

// As test/gpu finds it out on a GPU.
TEST_F(CudaBfloat16, ShowsInResults) {
  ArithmeticProbe probe(*queue_, *library_, 2, 4, 5);
  for (const float e : {kBelowTf32, kBelowBfloat16}) {
    EXPECT_NEAR(probe.Forward(e), 0, 1e-3);
    EXPECT_NEAR(probe.BackwardData(e), 0, 1e-3);
    EXPECT_NEAR(probe.BackwardWeights(e), 0, 1e-3);
    EXPECT_NEAR(probe.Product(e), 0, 1e-3);
  }
  std::string text;
  EXPECT_EQ(probe.Reported(&text), "bf16");
  EXPECT_EQ(text,
            " forward: algorithm 1 in bf16 backward: algorithm 1 in bf16 weight: algorithm 1 in "
            "bf16");
  // A pass that falls back is reported.
  fake_.refuses_bfloat16 = {0, 1};
  EXPECT_NEAR(probe.Forward(kBelowBfloat16), 1, 1e-3);
  EXPECT_EQ(probe.Reported(&text), "");
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
