// Matrix products and convolutions by cuBLAS and cuDNN, against tables of functions that check and
// compute on the host.
#include "nn/gpu/cuda_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "test/cuda/library_fixture.h"

namespace millrace::test {
namespace {

void ExpectNear(const Floats& actual, const Floats& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST_F(CudaLibraries, MultiplyMatricesWhoseRowsFollowEachOther) {
  for (int round = 0; round < 64; ++round) {
    SCOPED_TRACE(round);
    const bool ta = round & 1, tb = round & 2, add = round & 4;
    const auto size = [&] { return static_cast<int64_t>(1 + rng_.Below(9)); };
    const int64_t m = size(), n = size(), k = size();
    const Array a(*device_, m * k, &rng_), b(*device_, k * n, &rng_), c(*device_, m * n, &rng_);
    Floats expected = c.values();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = add ? expected[i * n + j] : 0;
        for (int64_t l = 0; l < k; ++l) {
          sum +=
              double{a.data()[ta ? l * m + i : i * k + l]} * b.data()[tb ? j * k + l : l * n + j];
        }
        expected[i * n + j] = static_cast<float>(sum);
      }
    }
    cudaSetDevice(0);
    library_->Multiply(ta, tb, m, n, k, a.data(), b.data(), add, c.data());
    ExpectNear(c.values(), expected);
  }
  ExpectOnQueue();
}

TEST_F(CudaLibraries, MultiplyEmptyMatrices) {
  const Array a(*device_, 12, &rng_), c(*device_, 12, &rng_);
  const Floats before = c.values();
  library_->Multiply(false, false, 0, 4, 3, a.data(), a.data(), false, c.data());
  library_->Multiply(false, false, 3, 0, 4, a.data(), a.data(), false, c.data());
  library_->Multiply(true, true, 3, 4, 0, a.data(), a.data(), true, c.data());
  EXPECT_EQ(c.values(), before);
  library_->Multiply(false, true, 3, 4, 0, a.data(), a.data(), false, c.data());
  EXPECT_EQ(c.values(), Floats(12, 0.0f));
}

// ---- Products with a bias ----

// Arrays begin anywhere, as the parameters of a net do in the array of all weights.
TEST_F(CudaLibraries, AddABiasWhileTheyMultiply) {
  for (int round = 0; round < 64; ++round) {
    SCOPED_TRACE(round);
    const bool ta = round & 1, tb = round & 2;
    const auto size = [&] { return static_cast<int64_t>(1 + rng_.Below(9)); };
    const int64_t m = size(), n = size(), k = size();
    const size_t off[] = {rng_.Below(5), rng_.Below(5), rng_.Below(5), rng_.Below(5)};
    const Array a(*device_, m * k + off[0], &rng_), b(*device_, k * n + off[1], &rng_),
        bias(*device_, n + off[2], &rng_), c(*device_, m * n + off[3], &rng_);
    const float *const from_a = a.data() + off[0], *const from_b = b.data() + off[1];
    const Floats before = c.values();
    Floats expected = before;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias.data()[off[2] + j];
        for (int64_t l = 0; l < k; ++l) {
          sum += double{from_a[ta ? l * m + i : i * k + l]} * from_b[tb ? j * k + l : l * n + j];
        }
        expected[off[3] + i * n + j] = static_cast<float>(sum);
      }
    }
    for (int time = 0; time < 2; ++time) {
      cudaSetDevice(0);
      ASSERT_TRUE(library_->MultiplyWithBias(ta, tb, m, n, k, from_a, from_b, bias.data() + off[2],
                                             c.data() + off[3]));
      ExpectNear(c.values(), expected);
    }
  }
  ExpectOnQueue();
  EXPECT_EQ(fake_.given_biased, std::vector<size_t>(128, 1024));
}

class CudaBiased : public CudaLibraries {
 protected:
  // Multiplies the arrays from `offset` on.
  bool Multiply(size_t offset = 0) {
    return library_->MultiplyWithBias(false, true, 3, 4, 5, in_.data() + offset, in_.data(),
                                      in_.data(), out_.data());
  }
  const Array in_{*device_, 64, &rng_}, out_{*device_, 12, &rng_};
};

TEST_F(CudaBiased, AskForAnAlgorithmOncePerShapeAndAlignment) {
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(Multiply());
  EXPECT_EQ(fake_.proposals_asked, 1);
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(Multiply(1));
  EXPECT_EQ(fake_.proposals_asked, 2);
  EXPECT_TRUE(Multiply(3));  // aligned as before
  EXPECT_EQ(fake_.proposals_asked, 2);
}

TEST_F(CudaBiased, LeaveToOthersWhatTheyDoNotHave) {
  const Floats before = out_.values();
  fake_.has_biased = false;
  for (int time = 0; time < 3; ++time) EXPECT_FALSE(Multiply());
  EXPECT_EQ(fake_.proposals_asked, 1);
  // Here the refusal comes with the work.
  fake_.has_biased = true, fake_.refuses_biased = true;
  EXPECT_FALSE(Multiply(1));
  fake_.refuses_biased = false;
  EXPECT_FALSE(Multiply(1));
  EXPECT_EQ(fake_.proposals_asked, 2);
  EXPECT_FALSE(library_->MultiplyWithBias(false, false, 3, 4, 0, in_.data(), in_.data(), in_.data(),
                                          out_.data()));
  EXPECT_FALSE(library_->MultiplyWithBias(false, false, 0, 4, 5, in_.data(), in_.data(), in_.data(),
                                          out_.data()));
  EXPECT_EQ(out_.values(), before);
}

TEST_F(CudaBiased, DoWithoutAWorkspaceWhereThereIsNoMemory) {
  const LogWatch log;
  cuda_.largest_block = 0;
  Make({});
  EXPECT_EQ(log.Count("no memory for a workspace"), 1);
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(Multiply());
  EXPECT_EQ(fake_.given_biased, std::vector<size_t>(2, 0));
  EXPECT_EQ(fake_.products_in_own_memory, 2);
}

TEST_F(CudaBiased, AreLeftToOthersIfThatIsAskedFor) {
  Make({.fused_bias = false});
  EXPECT_FALSE(Multiply());
  EXPECT_EQ(fake_.proposals_asked, 0);
}

// cuBLAS would allocate memory of its own while its work is recorded.
TEST_F(CudaBiased, UseAWorkspaceOfTheDevice) {
  EXPECT_TRUE(Multiply());
  library_->Multiply(false, false, 3, 4, 5, in_.data(), in_.data(), false, out_.data());
  EXPECT_EQ(fake_.products_in_own_memory, 0);
}

TEST_F(CudaBiased, HaveTheArithmeticOfTheRun) {
  for (const auto& [precision, compute] :
       {std::pair(GpuPrecision::kFloat32, CUBLAS_COMPUTE_32F),
        std::pair(GpuPrecision::kAuto, CUBLAS_COMPUTE_32F),
        std::pair(GpuPrecision::kTf32, CUBLAS_COMPUTE_32F_FAST_TF32),
        std::pair(GpuPrecision::kBfloat16, CUBLAS_COMPUTE_32F_FAST_16BF)}) {
    Make({.precision = precision});
    EXPECT_TRUE(Multiply());
    EXPECT_EQ(fake_.biased_compute, compute);
  }
}

// ---- Convolutions ----

TEST_F(CudaLibraries, ConvolveInAllPasses) {
  fake_.workspace = {{1, 4000}};
  for (int round = 0; round < 40; ++round) {
    const ConvolutionProblem p = RandomProblem(&rng_);
    SCOPED_TRACE(round);
    cudaSetDevice(0);
    plan_ = library_->PlanConvolution(p);
    EXPECT_EQ(plan_->workspace_bytes(), 4000u);
    const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
    const Floats bottom = at.bottom.values(), weights = at.weights.values();
    std::vector<double> top(at.top.values().size()), data(bottom.size());
    ForEachProduct(p, [&](auto b, auto w, auto t) { top[t] += double{bottom[b]} * weights[w]; });
    cudaSetDevice(0);
    plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
    const Floats diffs = at.top.values();
    ExpectNear(diffs, Floats(top.begin(), top.end()));
    const bool add = round % 2;
    std::vector<double> gradient(weights.size());
    if (add) std::copy(weights.begin(), weights.end(), gradient.begin());
    ForEachProduct(p, [&](auto b, auto w, auto t) {
      data[b] += double{diffs[t]} * weights[w];
      gradient[w] += double{diffs[t]} * bottom[b];
    });
    plan_->BackwardData(at.top.data(), at.weights.data(), at.bottom.data(), at.workspace.get());
    ExpectNear(at.bottom.values(), Floats(data.begin(), data.end()));
    std::copy(bottom.begin(), bottom.end(), at.bottom.data());
    plan_->BackwardWeights(at.bottom.data(), at.top.data(), add, at.weights.data(),
                           at.workspace.get());
    ExpectNear(at.weights.values(), Floats(gradient.begin(), gradient.end()));
  }
  ExpectOnQueue();
}

TEST_F(CudaLibraries, ConvolveNoImages) {
  ConvolutionProblem p = RandomProblem(&rng_);
  p.images = 0;
  plan_ = library_->PlanConvolution(p);
  const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
  const Floats before = at.weights.values();
  plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), nullptr);
  plan_->BackwardData(at.top.data(), at.weights.data(), at.bottom.data(), nullptr);
  plan_->BackwardWeights(at.bottom.data(), at.top.data(), true, at.weights.data(), nullptr);
  EXPECT_EQ(at.weights.values(), before);
  plan_->BackwardWeights(at.bottom.data(), at.top.data(), false, at.weights.data(), nullptr);
  EXPECT_EQ(at.weights.values(), Floats(before.size(), 0.0f));
}

// ---- The choice of an algorithm ----

TEST_F(CudaAlgorithms, AreThoseOfTheOwnArithmeticFirst) {
  fake_.proposals = {{5, CUDNN_TENSOR_OP_MATH}, {3, CUDNN_FMA_MATH}};
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 3}));
  fake_.proposals = {{5, CUDNN_TENSOR_OP_MATH}, {3, CUDNN_DEFAULT_MATH}};
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 3}));
}

// A proposal of another arithmetic counts its own workspace, which may be less than that of the
// descriptor's.
TEST_F(CudaAlgorithms, GetTheWorkspaceThatTheyNeedWhateverWasProposed) {
  fake_.proposals = {{4, CUDNN_TENSOR_OP_MATH, CUDNN_STATUS_SUCCESS, 8}};
  fake_.workspace = {{4, 6400}};
  EXPECT_EQ(Used(), (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(plan_->workspace_bytes(), 6400u);
}

TEST_F(CudaAlgorithms, MayNotTakeMoreThanTheLimit) {
  fake_.proposals = {{4}, {6}, {2, CUDNN_FMA_MATH, CUDNN_STATUS_NOT_SUPPORTED}, {3}};
  fake_.workspace = {{4, (size_t{1} << 30) + 1}, {3, 100}};
  fake_.unknown = {6};
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(plan_->workspace_bytes(), 100u);
}

TEST_F(CudaAlgorithms, AreReplacedIfTheyRefuseTheWork) {
  fake_.proposals = {{4}, {5}, {6}, {3}};
  fake_.workspace = {{4, 400}, {5, 800}, {6, 400}};  // 5 needs more than there is
  fake_.refuses = {4};
  EXPECT_EQ(Used(), (std::vector<int>{6, 6, 6}));
  EXPECT_EQ(plan_->workspace_bytes(), 400u);
  fake_.refuses = {4, 6, 3, 1, 0};
  EXPECT_EQ(ErrorOf([&] { Used(); }),
            "cuda device 1: cuDNN has no algorithm for the forward pass of a convolution");
}

TEST_F(CudaAlgorithms, ExistWithoutAnyProposal) {
  fake_.proposals = {};
  EXPECT_EQ(Used(), (std::vector<int>{1, 1, 1}));
  fake_.unknown = {1};
  EXPECT_EQ(Used(), (std::vector<int>{0, 0, 0}));
  fake_.unknown = {0, 1};
  EXPECT_CONTAINS(ErrorOf([&] { Used(); }), "no algorithm for the forward pass");
}

// ---- Arithmetic ----

TEST_F(CudaAlgorithms, ComputeInTf32IfThatIsAskedFor) {
  EXPECT_EQ(fake_.product_math, CUBLAS_DEFAULT_MATH);
  fake_.math = CUDNN_DEFAULT_MATH;
  Make({.precision = GpuPrecision::kTf32});
  EXPECT_EQ(fake_.product_math, CUBLAS_TF32_TENSOR_OP_MATH);
  // The fastest first, on tensor cores or not.
  fake_.proposals = {{5, CUDNN_TENSOR_OP_MATH}, {3, CUDNN_DEFAULT_MATH}, {4, CUDNN_FMA_MATH}};
  EXPECT_EQ(Used(), (std::vector<int>{5, 5, 5}));
  fake_.refuses = {5, 3};
  EXPECT_EQ(Used(), (std::vector<int>{4, 4, 4}));
}

// PyTorch's choice, too.
TEST_F(CudaAlgorithms, ConvolveInTf32ByThemselvesWhereTheGpuHasIt) {
  const LogWatch log;
  fake_.math = CUDNN_DEFAULT_MATH;
  Make({.precision = GpuPrecision::kAuto});
  EXPECT_EQ(fake_.product_math, CUBLAS_DEFAULT_MATH);
  EXPECT_EQ(Used(), (std::vector<int>{1, 1, 1}));
  for (const PassAlgorithm& each : plan_->algorithms()) EXPECT_EQ(each.arithmetic, "tf32");
  EXPECT_EQ(log.Count("cuda device 1: matrix products in float32, convolutions in TF32"), 1);
  cuda_.capability = 75;
  fake_.math = CUDNN_FMA_MATH;
  plan_.reset();
  Make({.precision = GpuPrecision::kAuto});
  EXPECT_EQ(fake_.product_math, CUBLAS_DEFAULT_MATH);
  EXPECT_EQ(Used(), (std::vector<int>{1, 1, 1}));
  for (const PassAlgorithm& each : plan_->algorithms()) EXPECT_EQ(each.arithmetic, "fp32");
  EXPECT_EQ(log.Count("cuda device 1: matrix products and convolutions in float32"), 1);
}

TEST_F(CudaAlgorithms, SayWhatComputesEachPass) {
  fake_.proposals = {{3}};
  Used();
  std::vector<std::string> passes;
  for (const PassAlgorithm& each : plan_->algorithms()) {
    passes.push_back(StrCat(each.pass, " ", each.arithmetic, " ", each.number));
  }
  EXPECT_EQ(passes,
            (std::vector<std::string>{"forward fp32 3", "backward fp32 3", "weight fp32 3"}));
}

TEST_F(CudaLibraries, RefuseAnArithmeticThatTheGpuLacks) {
  cuda_.capability = 75;
  EXPECT_EQ(ErrorOf([&] { Make({.precision = GpuPrecision::kTf32}); }),
            "--precision=tf32: cuda device 1 has compute capability 7.5, expected at least 8.0, or "
            "--precision=fp32");
  EXPECT_EQ(ErrorOf([&] { Make({.precision = GpuPrecision::kBfloat16}); }),
            "--precision=bf16: cuda device 1 has compute capability 7.5, expected at least 8.0, or "
            "--precision=fp32");
  Make({});
}

TEST(GpuSettingsTest, HaveOneOfFourPrecisions) {
  EXPECT_EQ(ParseGpuPrecision("auto"), GpuPrecision::kAuto);
  EXPECT_EQ(ParseGpuPrecision("fp32"), GpuPrecision::kFloat32);
  EXPECT_EQ(ParseGpuPrecision("tf32"), GpuPrecision::kTf32);
  EXPECT_EQ(ParseGpuPrecision("bf16"), GpuPrecision::kBfloat16);
  EXPECT_EQ(ErrorOf([] { ParseGpuPrecision("fp16"); }),
            "--precision=fp16: expected auto, fp32, tf32 or bf16");
  EXPECT_EQ(GpuSettings().precision, GpuPrecision::kFloat32);
}

// ---- Failures ----

// The n-th call fails, for every n: nothing is left behind, and the line names the GPU. Lack of
// memory is an OutOfMemory, to which the net adds the layer.
TEST_F(CudaLibraries, EndInOrderWhateverCallFails) {
  library_.reset();
  for (const auto& [for_memory, measure_seconds] :
       {std::pair(false, 0.0), std::pair(true, 0.0), std::pair(false, 1e9)}) {
    bool passed = false;
    int failed = 0;
    for (uint64_t n = 0; !passed; ++n) {
      ASSERT_LT(n, 200u);
      fake_.Reset();
      fake_.fails_at = n, fake_.fails_for_memory = for_memory;
      fake_.times = {{1, 1}};
      try {
        Rng rng(1, {1});
        Make({.measure_seconds = measure_seconds});
        const ConvolutionProblem p = RandomProblem(&rng);
        plan_ = library_->PlanConvolution(p);
        const Arrays at(*device_, p, plan_->workspace_bytes(), &rng);
        plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
        plan_->BackwardData(at.top.data(), at.weights.data(), at.bottom.data(), at.workspace.get());
        plan_->BackwardWeights(at.bottom.data(), at.top.data(), false, at.weights.data(),
                               at.workspace.get());
        library_->Multiply(false, false, 1, 1, 1, at.top.data(), at.top.data(), false,
                           at.bottom.data());
        library_->MultiplyWithBias(false, false, 1, 1, 1, at.top.data(), at.top.data(),
                                   at.top.data(), at.bottom.data());
        passed = fake_.calls <= n;
      } catch (const OutOfMemory& error) {
        EXPECT_TRUE(for_memory) << n;
        EXPECT_CONTAINS(error.what(), "cuda device 1: ");
        ++failed;
      } catch (const DeviceError& error) {
        EXPECT_FALSE(for_memory) << n;
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
}

TEST_F(CudaLibraries, RefuseSizesThatTheirIntegersCannotHold) {
  ConvolutionProblem p = RandomProblem(&rng_);
  p.images = int64_t{1} << 31;
  EXPECT_CONTAINS(ErrorOf([&] { library_->PlanConvolution(p); }), "is too large for cuDNN");
  EXPECT_CONTAINS(ErrorOf([&] {
                    library_->Multiply(false, false, 1, 1, int64_t{1} << 31, nullptr, nullptr,
                                       false, nullptr);
                  }),
                  "is too large for cuBLAS");
  EXPECT_CONTAINS(ErrorOf([&] {
                    library_->MultiplyWithBias(false, false, int64_t{1} << 31, 1, 1, nullptr,
                                               nullptr, nullptr, nullptr);
                  }),
                  "is too large for cuBLAS");
}

}  // namespace
}  // namespace millrace::test
