// Choices of algorithms that are kept from one run to the next.
#include "nn/gpu/convolution_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "test/cuda/library_fixture.h"

namespace millrace::test {
namespace {

constexpr double kNoLimit = 1e9;  // seconds

class CachedAlgorithms : public CudaAlgorithms {
 protected:
  CachedAlgorithms() { NextRun(GpuPrecision::kFloat32); }

  // A process that knows only the file.
  void NextRun(GpuPrecision precision = GpuPrecision::kFloat32) {
    plan_.reset();
    library_.reset();
    cache_ = std::make_unique<ConvolutionCache>(path_);
    Make({.precision = precision, .measure_seconds = measure_seconds_}, cache_.get());
    fake_.proposals_asked = fake_.measured = 0;
  }
  uint64_t Inode() const {
    struct stat status;
    return stat(path_.c_str(), &status) == 0 ? status.st_ino : 0;
  }

  double measure_seconds_ = 0;
  const TempDir folder_;
  const std::string path_ = folder_ / "millrace/convolutions";
  std::unique_ptr<ConvolutionCache> cache_;
  LogWatch warnings_{google::GLOG_WARNING};
};

const std::vector<int> kThrees{3, 3, 3}, kFives{5, 5, 5};

TEST_F(CachedAlgorithms, AreThoseOfTheLastRunWithoutProposals) {
  fake_.proposals = {{3}};
  fake_.workspace = {{3, 300}, {5, 500}};
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(fake_.proposals_asked, 3);
  NextRun();
  fake_.proposals = {{5}};
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(plan_->workspace_bytes(), 300u);
  EXPECT_EQ(fake_.proposals_asked, 0);
  EXPECT_EQ(warnings_.lines(), std::vector<std::string>());
}

TEST_F(CachedAlgorithms, AreOfOneArithmeticAndVersion) {
  fake_.proposals = {{3}};
  EXPECT_EQ(Used(), kThrees);
  fake_.proposals = {{5}};
  fake_.math = CUDNN_DEFAULT_MATH;
  NextRun(GpuPrecision::kTf32);
  EXPECT_EQ(Used(), kFives);
  fake_.math = CUDNN_FMA_MATH;
  fake_.version = 90100;
  NextRun();
  EXPECT_EQ(Used(), kFives);
  fake_.version = 90000;
  NextRun();
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(ParseConvolutionChoices(ReadFile(path_)).size(), 9u);
}

TEST_F(CachedAlgorithms, AreReplacedIfCudnnNoLongerAcceptsThem) {
  const std::map<std::string, void (*)(FakeLibraries*)> cases = {
      {"unknown", [](FakeLibraries* fake) { fake->unknown = {3}; }},
      {"too large", [](FakeLibraries* fake) { fake->workspace[3] = (size_t{1} << 30) + 1; }},
      {"refuses its work", [](FakeLibraries* fake) { fake->refuses = {3}; }}};
  for (const auto& [name, change] : cases) {
    SCOPED_TRACE(name);
    plan_.reset();
    library_.reset();
    fake_.Reset();
    fake_.proposals = {{3}};
    std::filesystem::remove(path_);
    NextRun();
    EXPECT_EQ(Used(), kThrees);
    NextRun();
    fake_.proposals = {{3}, {5}};
    change(&fake_);
    EXPECT_EQ(Used(), kFives);
    EXPECT_EQ(fake_.proposals_asked, 3);
    Used();  // saves what has been replaced in a pass
    NextRun();
    EXPECT_EQ(Used(), kFives);
    EXPECT_EQ(fake_.proposals_asked, 0);
  }
}

// Measuring takes much longer than the heuristics, so what has been measured serves all later runs.
TEST_F(CachedAlgorithms, AreMeasuredOnce) {
  measure_seconds_ = kNoLimit;
  fake_.proposals = {{5}};
  fake_.times = {{5, 2.5f}, {3, 1.5f}};
  NextRun();
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(fake_.measured, 3);
  EXPECT_EQ(fake_.proposals_asked, 0);
  for (const double seconds : {kNoLimit, 0.0}) {
    measure_seconds_ = seconds;
    NextRun();
    EXPECT_EQ(Used(), kThrees);
    EXPECT_EQ(fake_.measured, 0);
    EXPECT_EQ(fake_.proposals_asked, 0);
  }
}

TEST_F(CachedAlgorithms, AreMeasuredWhereOnlyHeuristicsHaveChosen) {
  fake_.proposals = {{5}};
  fake_.times = {{5, 2.5f}, {3, 1.5f}};
  EXPECT_EQ(Used(), kFives);
  measure_seconds_ = kNoLimit;
  NextRun();
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(fake_.measured, 3);
  // The heuristics replace one that was measured and later refuses its work; then it is measured
  // again.
  NextRun();
  fake_.refuses = {3};
  EXPECT_EQ(Used(), kFives);
  EXPECT_EQ(fake_.measured, 0);
  EXPECT_EQ(fake_.proposals_asked, 3);
  EXPECT_EQ(Used(), kFives);
  EXPECT_EQ(fake_.measured, 3);
  NextRun();
  EXPECT_EQ(Used(), kFives);
  EXPECT_EQ(fake_.measured, 0);
}

// A number that no algorithm of cuDNN has never reaches it.
TEST_F(CachedAlgorithms, AreAmongThoseOfCudnn) {
  fake_.proposals = {{3}};
  EXPECT_EQ(Used(), kThrees);
  ConvolutionChoices choices = ParseConvolutionChoices(ReadFile(path_));
  for (auto& [key, choice] : choices) choice.algorithm = kMaxAlgorithm;
  WriteFile(path_, FormatConvolutionChoices(choices));
  NextRun();
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(fake_.proposals_asked, 3);
}

TEST_F(CachedAlgorithms, IgnoreAndReplaceADamagedOrForeignFileWithOneWarning) {
  fake_.proposals = {{3}};
  EXPECT_EQ(Used(), kThrees);
  const std::string whole = ReadFile(path_);
  const std::map<std::string, std::string> files = {
      {"", "line 1: the file ends within it"},
      {"millrace convolutions 1\n", "line 1: expected 'millrace convolutions 2'"},
      {whole.substr(0, whole.size() - 1), "line 4: the file ends within it"},
      {whole + "x\n", "line 5: expected the number of an algorithm, from 0 to 31"},
      {whole + "32 forward\n", "line 5: expected the number of an algorithm, from 0 to 31"},
      {whole + "1 forward fp32 1 2 3 Fake\n",
       "line 5: expected 'measured' or 'proposed' behind the algorithm"},
      {whole + "1 measured forward fp32 1 2 3 Fake\n",
       "line 5: expected pass, arithmetic, version, 16 numbers and the name of a GPU"},
      {whole + whole.substr(whole.find('\n') + 1),
       "line 5: this convolution has an algorithm already"},
      {std::string(kMaxCacheBytes + 1, 'x'), "1048577 bytes, expected at most 1048576"}};
  for (const auto& [content, reason] : files) {
    SCOPED_TRACE(reason);
    WriteFile(path_, content);
    warnings_.Clear();
    NextRun();
    EXPECT_EQ(Used(), kThrees);
    EXPECT_EQ(fake_.proposals_asked, 3);
    EXPECT_EQ(warnings_.lines(),
              (std::vector<std::string>{
                  StrCat(path_, ": ", reason,
                         "; ignoring this file of convolutions' algorithms, and replacing it")}));
    EXPECT_EQ(ReadFile(path_), whole);
  }
}

TEST_F(CachedAlgorithms, AreWrittenOnceForAllPlansOfANet) {
  Rng rng(1, {1});
  const ConvolutionProblem first = RandomProblem(&rng), second = RandomProblem(&rng);
  const auto other = library_->PlanConvolution(first);
  plan_ = library_->PlanConvolution(second);
  EXPECT_EQ(Inode(), 0u);
  const Arrays at(*device_, second, plan_->workspace_bytes(), &rng_);
  plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
  EXPECT_EQ(ParseConvolutionChoices(ReadFile(path_)).size(), 6u);
  const uint64_t inode = Inode();
  for (int i = 0; i < 3; ++i) {
    plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
  }
  library_->PlanConvolution(first);
  plan_->Forward(at.bottom.data(), at.weights.data(), at.top.data(), at.workspace.get());
  EXPECT_EQ(Inode(), inode) << "nothing new was written";
}

TEST_F(CachedAlgorithms, LeaveThoseOfOtherProcesses) {
  Rng rng(2, {1});
  ConvolutionCache other(path_);
  const ConvolutionKey key{"forward", "fp32", 1, RandomProblem(&rng), "Another"};
  EXPECT_EQ(other.Find(key), std::nullopt);
  Used();  // writes the file, which the other process has read before
  other.Store(key, {7, true});
  other.Save();
  const ConvolutionChoices all = ParseConvolutionChoices(ReadFile(path_));
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(all.at(TextOf(key)), (ConvolutionChoice{7, true}));
}

TEST_F(CachedAlgorithms, NeedNoFile) {
  WriteFile(folder_ / "millrace", "a file in place of the folder");
  NextRun();
  fake_.proposals = {{3}};
  EXPECT_EQ(Used(), kThrees);
  EXPECT_EQ(Used(), kThrees);
  ASSERT_EQ(warnings_.lines().size(), 1u);
  EXPECT_CONTAINS(warnings_.lines()[0], "; the algorithms of convolutions are not kept");
}

TEST(ConvolutionKeys, DifferInEveryNumber) {
  const ConvolutionProblem p{2, 3, 4, 5, 6, 7, 8, 9, {10, 11}, {12, 13}, {14, 15}, {16, 17}};
  EXPECT_EQ(TextOf({"weight", "bf16", 1, p, "A\n GPU"}),
            "weight bf16 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 A? GPU");
}

TEST(ConvolutionCachePaths, FollowTheVariables) {
  using Variables = std::map<std::string, const char*>;
  const auto path = [](const Variables& variables) {
    return ConvolutionCachePath([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second;
    });
  };
  const auto with = [&](const char* use) {
    return Variables{{"MILLRACE_CONVOLUTION_CACHE", use}, {"HOME", "/home/a"}};
  };
  EXPECT_EQ(path({}), "");
  EXPECT_EQ(path({{"HOME", "/home/a"}}), "/home/a/.cache/millrace/convolutions");
  EXPECT_EQ(path({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/c"}}), "/c/millrace/convolutions");
  EXPECT_EQ(path({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "c"}}),
            "/home/a/.cache/millrace/convolutions");
  EXPECT_EQ(path({{"HOME", "a"}}), "");
  EXPECT_EQ(path(with("off")), "");
  EXPECT_EQ(path(with("on")), "/home/a/.cache/millrace/convolutions");
  EXPECT_EQ(ErrorOf([&] { path(with("no")); }),
            "MILLRACE_CONVOLUTION_CACHE=no: expected on or off");
}

}  // namespace
}  // namespace millrace::test
