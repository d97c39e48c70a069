// Which algorithms of cuDNN compute convolutions: those that it measures as the fastest, and others
// when one fails at its work.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/work_graph.h"
#include "test/cuda/library_fixture.h"
#include "test/support/fake_clock.h"

namespace millrace::test {
namespace {

// ---- Algorithms that fail ----

class FailingAlgorithms : public CudaAlgorithms {
 protected:
  FailingAlgorithms() { fake_.proposals = {{4}, {6}}; }

  // Adds to a weight gradient; 4 fails.
  void AddGradient(cudnnStatus_t status) {
    Rng rng(1, {1});
    const ConvolutionProblem p = RandomProblem(&rng);
    fake_.fails = {{4, status}};
    plan_ = library_->PlanConvolution(p);
    const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
    plan_->BackwardWeights(at.bottom.data(), at.top.data(), true, at.weights.data(),
                           at.workspace.get());
  }
};

TEST_F(FailingAlgorithms, AreReplaced) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED_CUDART,
        CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM,
        CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER}) {
    SCOPED_TRACE(status);
    const LogWatch log(google::GLOG_WARNING);
    fake_.fails = {{4, status}};
    EXPECT_EQ(Used(), (std::vector<int>{6, 6, 6}));
    for (const char* pass : {"forward", "backward", "weight"}) {
      EXPECT_EQ(log.Count(StrCat("cuda device 1: cuDNN's algorithm 4 for the ", pass,
                                 " pass of a convolution of ")),
                1);
    }
    EXPECT_EQ(log.Count(" has failed: a failure of cuDNN; going on to the next one"), 3);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next kernel reports it";
  }
}

TEST_F(FailingAlgorithms, MayAllFail) {
  for (int i = 0; i < 8; ++i) fake_.fails[i] = CUDNN_STATUS_EXECUTION_FAILED;
  EXPECT_EQ(ErrorOf([&] { Used(); }),
            "cuda device 1: cuDNN has no algorithm for the forward pass of a convolution");
}

TEST_F(FailingAlgorithms, EndTheRunIfTheDeviceHasFailed) {
  fake_.fails = {{4, CUDNN_STATUS_EXECUTION_FAILED}};
  fake_.device_fails = true;
  EXPECT_EQ(ErrorOf([&] { Used(); }), "cuda device 1: work has failed: an illegal address was met");
  EXPECT_EQ(fake_.used, std::vector<int>());
  cuda_.fails_at = UINT64_MAX, cuda_.sticky = false;
}

TEST_F(FailingAlgorithms, EndTheRunForLackOfMemory) {
  fake_.fails = {{4, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED}};
  EXPECT_THROW(Used(), OutOfMemory);
}

// The queue cannot wait there, and part of the failed work may have been recorded.
TEST_F(FailingAlgorithms, EndARecording) {
  Rng rng(1, {1});
  const ConvolutionProblem p = RandomProblem(&rng);
  plan_ = library_->PlanConvolution(p);
  const Arrays at(*device_, p, plan_->workspace_bytes(), &rng_);
  fake_.fails = {{4, CUDNN_STATUS_EXECUTION_FAILED}};
  std::string why;
  const auto graph = GraphRecorders::Find(DeviceType::kCuda)(
      *queue_,
      [&](GraphPoints&) {
        plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
      },
      &why);
  EXPECT_EQ(graph, nullptr);
  EXPECT_CONTAINS(why, "cuda device 1: a convolution failed: ");
  EXPECT_EQ(fake_.used, std::vector<int>());
  EXPECT_EQ(cuda_.recordings, 0);
}

// A kernel that has run before the failure may have changed the sum.
TEST_F(FailingAlgorithms, EndTheRunIfTheyHaveBegunToAdd) {
  for (const cudnnStatus_t status : {CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_INTERNAL_ERROR}) {
    EXPECT_CONTAINS(ErrorOf([&] { AddGradient(status); }), "cuda device 1: a convolution failed: ");
    EXPECT_EQ(fake_.used, std::vector<int>());
  }
  AddGradient(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(fake_.used, std::vector<int>{6});
}

// ---- Measurements ----

class MeasuredAlgorithms : public CudaAlgorithms {
 protected:
  MeasuredAlgorithms() {
    fake_.proposals = {{5}};
    fake_.times = {{2, 3.5f}, {3, 1.5f}, {4, 2.5f}};
    MakeWithTime();
  }
  // Another net's.
  void MakeWithTime() {
    plan_.reset();
    Make({.measure_seconds = 10}, nullptr, &clock_);
  }
  FakeClock clock_;
};

TEST_F(MeasuredAlgorithms, AreTheFastestThatWork) {
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(fake_.measured, 3);
  EXPECT_EQ(fake_.proposals_asked, 0);
  fake_.refuses = {3};
  EXPECT_EQ(Used(), (std::vector<int>{4, 4, 4}));
  fake_.refuses = {};
  fake_.fails = {{3, CUDNN_STATUS_EXECUTION_FAILED}, {4, CUDNN_STATUS_INTERNAL_ERROR}};
  EXPECT_EQ(Used(), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next kernel reports it";
  fake_.fails = {};
  fake_.workspace = {{3, (size_t{1} << 30) + 1}, {4, 640}};
  EXPECT_EQ(Used(), (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(plan_->workspace_bytes(), 640u);
}

TEST_F(MeasuredAlgorithms, LeaveTheArraysOfTheNetAndTheMemoryAsTheyWere) {
  Rng rng(1, {1});
  const ConvolutionProblem p = RandomProblem(&rng);
  const Arrays at(*device_, p, 64, &rng_);
  const Floats bottom = at.bottom.values(), weights = at.weights.values(), top = at.top.values();
  const size_t blocks = cuda_.blocks();
  fake_.workspace = {{3, 64}};
  plan_ = library_->PlanConvolution(p);
  EXPECT_EQ(fake_.measured, 3);
  EXPECT_EQ(cuda_.blocks(), blocks);
  EXPECT_EQ(at.bottom.values(), bottom);
  EXPECT_EQ(at.weights.values(), weights);
  EXPECT_EQ(at.top.values(), top);
  const uint64_t allocations = cuda_.allocations;
  plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
  EXPECT_EQ(fake_.measured, 3);
  EXPECT_EQ(cuda_.allocations, allocations);
  ExpectOnQueue();
}

TEST_F(MeasuredAlgorithms, AreThoseOfTheHeuristicsWhenTheTimeHasPassed) {
  const LogWatch log;
  fake_.when_measured = [this] { clock_.AdvanceSeconds(4); };
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 3}));  // the third began after 8 s
  EXPECT_EQ(Used(), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(fake_.measured, 3);
  EXPECT_EQ(log.Count("cuda device 1: the 10 s for measuring algorithms of convolutions have "
                      "passed: cuDNN's heuristics choose the others"),
            1);
  fake_.when_measured = [this] { clock_.AdvanceSeconds(6); };
  MakeWithTime();
  EXPECT_EQ(Used(), (std::vector<int>{3, 3, 5}));
}

TEST_F(MeasuredAlgorithms, AreThoseOfTheHeuristicsWhereNoneWorks) {
  const std::vector<int> of_heuristics{5, 5, 5};
  fake_.times = {};
  EXPECT_EQ(Used(), of_heuristics);
  fake_.times = {{3, 1}};
  fake_.refuses = {3};
  EXPECT_EQ(Used(), of_heuristics);
  EXPECT_EQ(fake_.measured, 6);
}

TEST_F(MeasuredAlgorithms, AreThoseOfTheHeuristicsWithoutMemoryForTheArrays) {
  const LogWatch log;
  Rng rng(1, {1});
  const ConvolutionProblem p = RandomProblem(&rng);
  const size_t blocks = cuda_.blocks();
  constexpr size_t kWorkspace = size_t{1} << 20;
  fake_.workspace = {{3, kWorkspace}};
  for (const size_t largest : {size_t{0}, kWorkspace - 1}) {
    cuda_.largest_block = largest;
    plan_ = library_->PlanConvolution(p);
    EXPECT_EQ(fake_.measured, 0);
    EXPECT_EQ(cuda_.blocks(), blocks);
    for (const PassAlgorithm& each : plan_->algorithms()) EXPECT_EQ(each.number, 5) << each.pass;
  }
  EXPECT_EQ(log.Count("too little memory to measure algorithms of a convolution"), 2);
  cuda_.largest_block = kWorkspace;
  plan_ = library_->PlanConvolution(p);
  EXPECT_EQ(fake_.measured, 3);
}

// Their work would be recorded, and not run.
TEST_F(MeasuredAlgorithms, AreThoseOfTheHeuristicsInARecording) {
  Rng rng(1, {1});
  std::string why;
  GraphRecorders::Find(DeviceType::kCuda)(
      *queue_, [&](GraphPoints&) { plan_ = library_->PlanConvolution(RandomProblem(&rng)); }, &why);
  EXPECT_EQ(fake_.measured, 0);
  for (const PassAlgorithm& each : plan_->algorithms()) EXPECT_EQ(each.number, 5) << each.pass;
}

}  // namespace
}  // namespace millrace::test
