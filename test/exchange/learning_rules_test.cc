// The merge rules beside the additive one, against models of one element: in the host loops of
// every instruction set and in kernels, through all codecs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/rules/average_rule.h"
#include "exchange/kernels/rules/cgad_rule.h"
#include "exchange/kernels/rules/decayed_rule.h"
#include "exchange/kernels/rules/delay_compensated_rule.h"
#include "exchange/kernels/rules/easgd_rule.h"
#include "exchange/kernels/rules/gap_aware_rule.h"
#include "exchange/kernels/rules/heloco_rule.h"
#include "exchange/kernels/rules/mla_rule.h"
#include "exchange/kernels/rules/outer_rule.h"
#include "exchange/kernels/rules/staleness_rule.h"
#include "exchange/kernels/stream_executor.h"
#include "test/exchange/executor_pair.h"
#include "test/support/emulated_launcher.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ExecutorPair;
using test::ReferenceExecutor;
using test::ReferenceRule;

// A kernel of the rule on a fake device, with arrays in host memory.
using MakeKernel = std::function<std::unique_ptr<ChunkExecutor>(
    test::FakeDevice& device, const ReplicaArrays& arrays, const CodecConfig& codec)>;

template <typename Rule>
MakeKernel KernelOf(Rule (*make)(const RuleParameters&), const MergeRuleConfig& config) {
  const RuleParameters parameters =
      MergeRuleRegistry::Get().Check(config).WithDefaults(config.parameters);
  return [rule = make(parameters)](test::FakeDevice& device, const ReplicaArrays& arrays,
                                   const CodecConfig& codec) {
    return std::make_unique<StreamExecutor>(
        device,
        std::make_unique<test::EmulatedLauncher<Rule>>(
            test::EmulatedOptions{.lanes = 5, .seed = test::Seed()}, rule),
        arrays, codec);
  };
}

struct Case {
  MergeRuleConfig config;
  ReferenceRule model;
  MakeKernel make_kernel;
};

Case EasgdCase() {
  Case easgd{{"easgd", {{"pull", 0.375}, {"rest", 0.5}}}, {}, {}};
  easgd.model.offer = [](float u) { return std::fabs(u) > 0.5f ? 0.375f * u : 0; };
  easgd.model.keep = [](float u, float d) { return u - (d + d); };
  easgd.make_kernel = KernelOf(MakeEasgdRule, easgd.config);
  return easgd;
}

TEST(EasgdRule, RefusesStepsThatMoveNoWeight) {
  test::Replica replica(10, 10);
  EXPECT_EQ(test::ErrorOf([&] {
              MakeHostExecutor(replica.arrays, {}, {"easgd", {{"pull", 0.02}, {"rest", 1e-4}}});
            }),
            "merge rule easgd: pull times rest is 2e-06: expected at least 5e-06, which moves a "
            "weight");
}

// Counts the diffs of a round, and keeps the velocity.
Case OuterCase(bool nesterov, int delay) {
  Case outer{{"outer",
              {{"rate", 0.25},
               {"momentum", 0.75},
               {"nesterov", nesterov ? 1.0 : 0.0},
               {"delay", static_cast<double>(delay)}}},
             {},
             {}};
  outer.model.zero_changes_nothing = false;
  outer.model.state_floats = 2;
  outer.model.merge = [nesterov, delay](float w, float d, float* state, uint32_t) {
    const int nth = static_cast<int>(state[1]) + 1;
    const float old = state[0];
    float kick = 0;
    if (!nesterov && nth == 1) kick = old;
    state[0] = old + 0.25f * d;
    state[1] = static_cast<float>(nth);
    if (nth == delay) {
      state[0] = 0.75f * state[0];
      state[1] = 0;
      if (nesterov) kick = state[0];
    }
    return (w + 0.25f * d) + kick;
  };
  outer.make_kernel = KernelOf(MakeOuterRule, outer.config);
  return outer;
}

Case AverageCase() {
  Case average{{"average", {}}, {}, {}};
  average.model.merges_own = average.model.takes_share = true;
  average.make_kernel =
      KernelOf<AverageRule>([](const RuleParameters&) { return AverageRule(); }, average.config);
  return average;
}

Case StalenessCase(double power, double grace) {
  Case staleness{{"staleness", {{"power", power}, {"grace", grace}}}, {}, {}};
  staleness.model.merge = [power, grace](float w, float d, float*, uint32_t staleness) {
    const double from = staleness > 63 ? 63 : staleness;
    const double old = 1 + from - grace;
    const auto factor = static_cast<float>(old > 1 ? std::pow(old, -power) : 1);
    return w + factor * d;
  };
  staleness.make_kernel = KernelOf(MakeStalenessRule, staleness.config);
  return staleness;
}

Case CompensatedCase() {
  Case compensated{{"delay_compensated", {{"strength", 0.5}}}, {}, {}};
  compensated.model.compensate = [](float u, float moved, float*) {
    const float factor = 1 - (0.5f * u) * moved;
    if (!(factor > 0)) return u * 0;
    return factor < 2 ? u * factor : u * 2;
  };
  compensated.make_kernel = KernelOf(MakeDelayCompensatedRule, compensated.config);
  return compensated;
}

Case DecayedCase() {
  Case decayed{{"decayed", {{"decay", 0.75}}}, {}, {}};
  decayed.model.changes_unsent = true;
  decayed.model.keep = [](float u, float d) { return 0.75f * (u - d); };
  decayed.make_kernel = KernelOf(MakeDecayedRule, decayed.config);
  return decayed;
}

Case GapAwareCase() {
  Case gap_aware{{"gap_aware", {{"memory", 0.75}}}, {}, {}};
  gap_aware.model.state_floats = 1;
  gap_aware.model.compensate = [](float u, float moved, float* state) {
    if (!std::isfinite(u)) return u;
    state[0] = state[0] == 0 ? std::fabs(u) : 0.75f * state[0] + 0.25f * std::fabs(u);
    return moved == 0 ? u : u * (state[0] / (state[0] + std::fabs(moved)));
  };
  gap_aware.make_kernel = KernelOf(MakeGapAwareRule, gap_aware.config);
  return gap_aware;
}

// Adam with its bias correction, as textbooks have it, but for the powers of beta.
Case CgadCase(double cutoff) {
  Case cgad{{"cgad",
             {{"rate", 0.25},
              {"beta1", 0.75},
              {"beta2", 0.875},
              {"epsilon", 0.125},
              {"decay", 0.25},
              {"cutoff", cutoff}}},
            {},
            {}};
  cgad.model.zero_changes_nothing = false;
  cgad.model.state_floats = 4;
  cgad.model.merge = [cutoff](float w, float d, float* state, uint32_t staleness) {
    const double gate = staleness < cutoff ? 0.5 * (1 + std::cos(M_PI * staleness / cutoff)) : 0;
    const float g = static_cast<float>(std::exp(-0.25 * staleness) * gate) * d;
    state[0] = 0.75f * state[0] + 0.25f * g;
    state[1] = 0.875f * state[1] + 0.125f * (g * g);
    state[2] = 0.75f * state[2] + 0.25f;
    state[3] = 0.875f * state[3] + 0.125f;
    return w + 0.25f * (state[0] / state[2] / (std::sqrt(state[1] / state[3]) + 0.125f));
  };
  cgad.make_kernel = KernelOf(MakeCgadRule, cgad.config);
  return cgad;
}

Case HelocoCase(double keep) {
  Case heloco{{"heloco",
               {{"rate", 0.25},
                {"momentum", 0.75},
                {"keep", keep},
                {"turn", 0.5},
                {"shrink", 2},
                {"cap", 0.875},
                {"kappa", 0.5}}},
              {},
              {}};
  heloco.model.zero_changes_nothing = false;
  heloco.model.state_floats = 1;
  heloco.model.align = [keep](float dm, float dd, float mm) -> std::pair<float, float> {
    const float d = std::sqrt(dd), m = std::sqrt(mm), cosine = dm / (d * m);
    // Payloads of arbitrary bits have norms that overflow or vanish.
    if (!(d * m > 1e-30f && d * m < 1e30f) || cosine >= static_cast<float>(keep)) return {1, 0};
    const float confidence = d / (d + 0.5f * m);
    if (cosine < 0) return {1, -std::min(2 * -cosine * confidence, 0.875f) * cosine * d / m};
    const float t = std::min(0.5f * (1 - cosine) * confidence, 1.0f), rest = 1 - t;
    const float length = std::sqrt(rest * rest + t * t + 2 * (rest * t) * cosine);
    return {rest / length, t * d / (length * m)};
  };
  heloco.model.merge = [](float w, float g, float* state, uint32_t) {
    state[0] = 0.75f * state[0] + 0.25f * g;
    return w + 0.25f * (g + 0.75f * state[0]);
  };
  heloco.make_kernel = KernelOf(MakeHelocoRule, heloco.config);
  return heloco;
}

// Counts the diffs of a round, and keeps the velocity.
Case MlaCase(int delay, float ahead) {
  Case mla{{"mla",
            {{"rate", 0.25},
             {"momentum", 0.75},
             {"ahead", ahead},
             {"delay", static_cast<double>(delay)}}},
           {},
           {}};
  mla.model.zero_changes_nothing = false;
  mla.model.state_floats = 3;
  mla.model.merge = [delay, ahead](float w, float d, float* state, uint32_t) {
    state[1] += 0.25f * d;
    state[2] += 1;
    if (state[2] < static_cast<float>(delay)) return w + 0.25f * d;
    const float old = state[0];
    state[0] = 0.75f * old + state[1];
    state[1] = state[2] = 0;
    return (w + 0.25f * d) + (0.75f * old + ahead * (state[0] - old));
  };
  mla.make_kernel = KernelOf(MakeMlaRule, mla.config);
  return mla;
}

std::vector<Case> Cases() {
  return {EasgdCase(),         OuterCase(false, 1), OuterCase(true, 1),    OuterCase(true, 3),
          OuterCase(false, 4), StalenessCase(1, 1), StalenessCase(0.5, 0), CompensatedCase(),
          DecayedCase(),       AverageCase(),       GapAwareCase(),        CgadCase(2),
          CgadCase(64),        HelocoCase(0),       HelocoCase(1),         MlaCase(1, 0),
          MlaCase(3, 1.5f)};
}

std::string NameOf(const Case& rule) {
  std::string text = rule.config.name;
  for (const auto& [key, value] : rule.config.parameters) text += StrCat(" ", key, "=", value);
  return text;
}

ExecutorPair HostAndModel(const Case& rule, int64_t size, int64_t chunk, const CodecConfig& codec,
                          Simd simd) {
  return ExecutorPair(
      size, chunk,
      [&](const ReplicaArrays& arrays) {
        return MakeHostExecutor(arrays, codec, rule.config, simd);
      },
      [&](const ReplicaArrays& arrays) {
        return std::make_unique<ReferenceExecutor>(arrays, codec, rule.model);
      });
}

TEST(LearningRules, AgreeWithTheirModelsInEveryBit) {
  Rng rng(test::Seed(), {1});
  for (const Case& rule : Cases()) {
    SCOPED_TRACE(NameOf(rule));
    test::ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
      if (!MergeRuleRegistry::Get().WorksWith(rule.config.name, config)) return;
      ExecutorPair pair = HostAndModel(rule, size, chunk, config, simd);
      LiveLikeTheReference(&pair, config.codec, &rng);
      ExecutorPair worker = HostAndModel(rule, size, chunk, config, simd),
                   master = HostAndModel(rule, size, chunk, config, simd);
      MergeLikeTheReference(&worker, &master, config.codec, &rng);
      if (rule.model.merges_own) MergeOwnLikeTheReference(&master, &rng);
    });
  }
}

// What a codec sends at the end of a run.
TEST(LearningRules, AgreeWithTheirModelsWhenASparseSegmentSendsAll) {
  Rng rng(test::Seed(), {2});
  for (const Case& rule : Cases()) {
    SCOPED_TRACE(NameOf(rule));
    ExecutorPair pair = HostAndModel(rule, 100, 35, test::kAllCodecConfigs[4], BestSimd());
    LiveLikeTheReference(&pair, Codec::kFloat32, &rng);
  }
}

TEST(LearningRules, LeaveTheBitsInKernelsThatTheHostLeaves) {
  Rng rng(test::Seed(), {3});
  for (const Case& rule : Cases()) {
    SCOPED_TRACE(NameOf(rule));
    for (const CodecConfig& codec : test::kAllCodecConfigs) {
      if (!MergeRuleRegistry::Get().WorksWith(rule.config.name, codec)) continue;
      SCOPED_TRACE(CodecName(codec));
      for (const int64_t size : {1, 3, 33, 100}) {
        test::FakeDevice fake;
        const auto make_pair = [&] {
          return ExecutorPair(
              5 * size / 2, size,
              [&](const ReplicaArrays& arrays) { return rule.make_kernel(fake, arrays, codec); },
              [&](const ReplicaArrays& arrays) {
                return MakeHostExecutor(arrays, codec, rule.config);
              });
        };
        ExecutorPair pair = make_pair(), worker = make_pair(), master = make_pair();
        LiveLikeTheReference(&pair, codec.codec, &rng);
        MergeLikeTheReference(&worker, &master, codec.codec, &rng);
        if (rule.model.merges_own) MergeOwnLikeTheReference(&master, &rng);
        if (HasFailure()) return;
      }
    }
  }
}

// One step of an optimizer for the sum of a round's diffs, as textbooks have it.
TEST(OuterRule, StepsOncePerRoundAsMomentumDoes) {
  Rng rng(test::Seed(), {4});
  for (const bool nesterov : {false, true}) {
    for (const int delay : {1, 2, 5}) {
      const OuterRule rule = MakeOuterRule(
          {{"rate", 0.3}, {"momentum", 0.9}, {"nesterov", nesterov}, {"delay", delay}});
      float w = 1, state[2] = {};
      double expected = 1, velocity = 0;
      for (int round = 0; round < 20; ++round) {
        double sum = 0;
        for (int i = 0; i < delay; ++i) {
          const float d = rng.Gaussian();
          w = rule.Apply(w, d, state, 0);
          sum += 0.3 * d;
        }
        velocity = 0.9 * velocity + sum;
        expected += nesterov ? sum + 0.9 * velocity : velocity;
        EXPECT_NEAR(w, expected, 1e-4) << nesterov << ' ' << delay << ' ' << round;
      }
    }
  }
}

TEST(OuterRule, AveragesWithoutMomentum) {
  const OuterRule rule =
      MakeOuterRule({{"rate", 0.25}, {"momentum", 0}, {"nesterov", 1}, {"delay", 3}});
  float w = 8, state[2] = {};
  for (const float d : {4.0f, -2.0f, 8.0f, 6.0f}) w = rule.Apply(w, d, state, 0);
  EXPECT_EQ(w, 8 + (4 - 2 + 8 + 6) / 4.0f);
}

// Progress that a master has not merged when it stops being one is that of a worker.
TEST(AverageRule, MergesAMastersOwnProgressAsThatOfAnother) {
  test::Replica replica(3, 3);
  const auto executor = MakeHostExecutor(replica.arrays, {}, {"average", {}});
  const auto run = [&](ChunkOpKind kind, std::span<const float> in = {}) {
    ChunkOp op{.kind = kind};
    if (kind == ChunkOpKind::kMerge || kind == ChunkOpKind::kMergeOwn) op.share = 0.25f;
    op.in = reinterpret_cast<const std::byte*>(in.data());
    op.in_bytes = static_cast<uint32_t>(in.size_bytes());
    executor->Run({&op, 1});
  };
  const ReplicaArrays& arrays = replica.arrays;
  const auto weights = [&] { return std::vector<float>(arrays.weights, arrays.weights + 3); };
  const auto base = [&] { return std::vector<float>(arrays.base, arrays.base + 3); };
  std::copy_n(std::vector<float>{1, 2, 3}.begin(), 3, arrays.weights);
  run(ChunkOpKind::kDemote);
  for (int i = 0; i < 3; ++i) arrays.weights[i] += 4;
  const float diff[] = {8, 0, -8};
  run(ChunkOpKind::kMerge, diff);
  EXPECT_EQ(base(), (std::vector<float>{3, 2, 1}));
  EXPECT_EQ(weights(), (std::vector<float>{7, 6, 5}));
  run(ChunkOpKind::kMergeOwn);
  EXPECT_EQ(base(), (std::vector<float>{4, 3, 2}));
  EXPECT_EQ(weights(), base());
  arrays.weights[1] += 4;
  run(ChunkOpKind::kTake);
  EXPECT_EQ(base(), (std::vector<float>{4, 7, 2}));
  run(ChunkOpKind::kTakeBack);
  EXPECT_EQ(base(), (std::vector<float>{4, 3, 2}));
  EXPECT_EQ(weights(), (std::vector<float>{4, 7, 2}));
}

TEST(GapAwareRule, DividesProgressByOnePlusTheGapInMeanSteps) {
  GapAwareRule rule;
  rule.memory = 0.5f;
  float mean = 0;
  EXPECT_EQ(rule.Compensate(2.0f, 0.0f, &mean), 2);
  EXPECT_EQ(mean, 2);
  EXPECT_EQ(rule.Compensate(-2.0f, 2.0f, &mean), -1);  // a gap of one mean step
  EXPECT_EQ(rule.Compensate(2.0f, -6.0f, &mean), 0.5f);
  EXPECT_EQ(rule.Compensate(4.0f, 3.0f, &mean), 2);  // in which this step counts
  EXPECT_EQ(mean, 3);
  EXPECT_EQ(rule.Compensate(0.0f, 3.0f, &mean), 0);
  EXPECT_EQ(mean, 1.5f);
  for (const float u : {-3.0f, -1e-3f, 0.0f, 1e-3f, 3.0f, 3e38f}) {
    for (const float moved : {-1e30f, -1.0f, -1e-6f, 0.0f, 1e-6f, 1.0f, 1e30f}) {
      float state = 0;
      const float changed = rule.Compensate(u, moved, &state);
      EXPECT_TRUE(std::isfinite(changed));
      EXPECT_GE(changed * u, 0) << u << ' ' << moved;
      EXPECT_LE(std::fabs(changed), std::fabs(u)) << u << ' ' << moved;
    }
  }
}

// Passes over a chunk that look for the largest element, or choose some, leave the mean step alone.
TEST(GapAwareRule, CountsATakeOnceInTheMeanStep) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    SCOPED_TRACE(CodecName(codec));
    test::Replica replica(100, 100);
    const ReplicaArrays& a = replica.arrays;
    const auto executor = MakeHostExecutor(a, codec, {"gap_aware", {{"memory", 0.5}}});
    std::vector<std::byte> out(MaxPayloadBytes(100));
    ChunkOp take{.kind = ChunkOpKind::kTake, .codec = codec.codec};
    take.out = out.data();
    for (int i = 0; i < 100; ++i) a.weights[i] = a.base[i] + 4;
    take.out_bytes = static_cast<uint32_t>(out.size());
    executor->Run({&take, 1});
    for (int i = 0; i < 100; ++i) a.weights[i] = a.base[i] + 2;
    take.out_bytes = static_cast<uint32_t>(out.size());
    executor->Run({&take, 1});
    for (int i = 0; i < 100; ++i) EXPECT_EQ(a.rule_state[i], 3) << i;
  }
}

TEST(CgadRule, IsAdamWithoutStaleness) {
  Rng rng(test::Seed(), {5});
  const RuleParameters given = {{"rate", 0.01}, {"beta1", 0.9}, {"beta2", 0.99}};
  const CgadRule rule = MakeCgadRule(MergeRuleRegistry::Get().Find("cgad")->WithDefaults(given));
  float w = 1, state[4] = {};
  double expected = 1, mean = 0, square = 0;
  for (int k = 1; k <= 50; ++k) {
    const float d = rng.Gaussian();
    w = rule.Apply(w, d, state, 0);
    mean = 0.9 * mean + 0.1 * d;
    square = 0.99 * square + 0.01 * d * d;
    expected += 0.01 * (mean / (1 - std::pow(0.9, k))) /
                (std::sqrt(square / (1 - std::pow(0.99, k))) + 1e-8);
    EXPECT_NEAR(w, expected, 1e-5) << k;
  }
}

TEST(CgadRule, TakesLessOfOldDiffsAndNothingFromTheCutoffOn) {
  const RuleParameters given = {{"decay", 0.125}, {"cutoff", 8}};
  const CgadRule rule = MakeCgadRule(MergeRuleRegistry::Get().Find("cgad")->WithDefaults(given));
  EXPECT_EQ(rule.factors.Of(0), 1);
  EXPECT_FLOAT_EQ(rule.factors.Of(4), std::exp(-0.5f) / 2);
  for (uint32_t i = 1; i < 8; ++i) EXPECT_LT(rule.factors.Of(i), rule.factors.Of(i - 1)) << i;
  EXPECT_GT(rule.factors.Of(7), 0);
  for (const uint32_t old : {8u, 9u, 63u, 1000u}) EXPECT_EQ(rule.factors.Of(old), 0) << old;
}

// A diff of two weights, with the momentum (0, m).
std::vector<float> CorrectedByHeloco(HelocoRule rule, const std::vector<float>& d, float m) {
  rule.kappa = 0;
  const HelocoRule aligned = rule.Aligned(d[1] * m, d[0] * d[0] + d[1] * d[1], m * m);
  std::vector<float> corrected;
  for (size_t i = 0; i < 2; ++i) {
    float state = i == 0 ? 0 : m;
    corrected.push_back(aligned.Apply(0.0f, d[i], &state, 0));
  }
  return corrected;
}

TEST(HelocoRule, CorrectsWhatIsAgainstTheMomentum) {
  HelocoRule rule;  // without momentum, an Apply() adds the corrected diff
  rule.keep = 0.5f;
  rule.turn = 1;
  rule.shrink = 4;
  rule.cap = 1;
  using Diff = std::vector<float>;
  EXPECT_EQ(CorrectedByHeloco(rule, {3, 4}, 0.25f), (Diff{3, 4}));  // a cosine of 0.8
  EXPECT_EQ(CorrectedByHeloco(rule, {3, 4}, 0), (Diff{3, 4}));
  EXPECT_EQ(CorrectedByHeloco(rule, {0, 0}, 0.25f), (Diff{0, 0}));
  EXPECT_EQ(CorrectedByHeloco(rule, {3, -4}, 0.25f), (Diff{3, 0}));  // all of it is removed
  rule.cap = 0.5f;
  EXPECT_EQ(CorrectedByHeloco(rule, {3, -4}, 0.25f), (Diff{3, -2}));
  const Diff turned = CorrectedByHeloco(rule, {5, 0}, 0.25f);  // at right angles: all the way
  EXPECT_EQ(turned, (Diff{0, 5}));
  rule.turn = 0.5f;
  const Diff half = CorrectedByHeloco(rule, {5, 0}, 0.25f);
  EXPECT_FLOAT_EQ(half[0], 5 / std::sqrt(2.0f));
  EXPECT_FLOAT_EQ(half[1], 5 / std::sqrt(2.0f));
}

// Squares that overflow or vanish leave a diff as it is.
TEST(HelocoRule, LeavesDiffsWithoutADirectionAsTheyAre) {
  const HelocoRule rule = MakeHelocoRule(MergeRuleRegistry::Get().Find("heloco")->WithDefaults({}));
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> sums = {
      {0, 0, 0}, {-inf, inf, inf}, {std::nanf(""), inf, inf}, {-1e-42f, 1e-45f, 1e-38f}};
  for (const auto& each : sums) {
    const HelocoRule aligned = rule.Aligned(each[0], each[1], each[2]);
    EXPECT_EQ(aligned.own, 1);
    EXPECT_EQ(aligned.along, 0);
  }
}

// The weights of a master are those of momentum, extrapolated.
TEST(MlaRule, ExtrapolatesTheWeightsOfMomentumByTheVelocity) {
  Rng rng(test::Seed(), {6});
  for (const double ahead : {0.0, 0.9, 2.5}) {
    for (const int delay : {1, 2, 5}) {
      const MlaRule rule = MakeMlaRule({{"rate", 0.3},
                                        {"momentum", 0.9},
                                        {"ahead", ahead},
                                        {"delay", static_cast<double>(delay)}});
      float w = 1, state[3] = {};
      double weight = 1, velocity = 0;
      for (int round = 0; round < 20; ++round) {
        double sum = 0;
        for (int i = 0; i < delay; ++i) {
          const float d = rng.Gaussian();
          w = rule.Apply(w, d, state, 0);
          sum += 0.3 * d;
        }
        velocity = 0.9 * velocity + sum;
        weight += velocity;
        EXPECT_NEAR(w, weight + ahead * velocity, 1e-4) << ahead << ' ' << delay << ' ' << round;
      }
    }
  }
}

TEST(MlaRule, RefusesWhatIsNoNumberOfDiffs) {
  test::Replica replica(10, 10);
  EXPECT_EQ(test::ErrorOf([&] {
              MakeHostExecutor(replica.arrays, {}, {"mla", {{"delay", 1.5}}});
            }),
            "merge rule mla: delay is 1.5: expected a whole number of diffs");
}

TEST(OuterRule, RefusesWhatIsNoNumberOfDiffsAndNoSwitch) {
  const auto error = [](const RuleParameters& parameters) {
    test::Replica replica(10, 10);
    return test::ErrorOf([&] { MakeHostExecutor(replica.arrays, {}, {"outer", parameters}); });
  };
  EXPECT_EQ(error({{"delay", 1.5}}),
            "merge rule outer: delay is 1.5: expected a whole number of diffs");
  EXPECT_EQ(error({{"nesterov", 0.5}}), "merge rule outer: nesterov is 0.5: expected 0 or 1");
  EXPECT_EQ(error({{"rate", 3}}), "merge rule outer: rate is 3: expected 0.001 to 2");
}

TEST(StalenessRule, DividesByTheStalenessByDefault) {
  const MergeRuleDescriptor& descriptor = *MergeRuleRegistry::Get().Find("staleness");
  const StalenessRule rule = MakeStalenessRule(descriptor.WithDefaults({}));
  float* const none = nullptr;
  EXPECT_EQ(rule.Apply(1.0f, 8.0f, none, 0), 9);
  EXPECT_EQ(rule.Apply(1.0f, 8.0f, none, 1), 9);
  EXPECT_EQ(rule.Apply(1.0f, 8.0f, none, 2), 5);
  EXPECT_EQ(rule.Apply(1.0f, 8.0f, none, 4), 3);
  EXPECT_EQ(rule.Apply(1.0f, 63.0f, none, 1000), 2);
}

float* const kNoState = nullptr;

TEST(DelayCompensatedRule, CorrectsAGradientToFirstOrder) {
  // A gradient g at w_then, sent as u = -rate g; the weights have moved on.
  const double rate = 0.1, lambda = 0.5, g = 0.8, moved = 0.3;
  const DelayCompensatedRule rule = MakeDelayCompensatedRule({{"strength", lambda / rate}});
  const double corrected = g + lambda * g * g * moved;
  EXPECT_NEAR(rule.Compensate(static_cast<float>(-rate * g), static_cast<float>(moved), kNoState),
              -rate * corrected, 1e-6);
}

TEST(DelayCompensatedRule, NeitherChangesASignNorMoreThanDoubles) {
  DelayCompensatedRule rule;
  rule.strength = 1000;
  for (const float u : {-3.0f, -1e-3f, 0.0f, 1e-3f, 3.0f, 1e30f}) {
    for (const float moved : {-1e30f, -1.0f, -1e-6f, 0.0f, 1e-6f, 1.0f, 1e30f}) {
      const float changed = rule.Compensate(u, moved, kNoState);
      EXPECT_TRUE(std::isfinite(changed));
      EXPECT_GE(changed * u, 0) << u << ' ' << moved;
      EXPECT_LE(std::fabs(changed), 2 * std::fabs(u)) << u << ' ' << moved;
      if (moved == 0) {
        EXPECT_EQ(changed, u);
      }
    }
  }
}

// Positions that do not acknowledge the pending diff leave progress as it is.
TEST(DelayCompensatedRule, DoesNotChangeProgressThatWaitsForAPendingDiff) {
  test::Replica replica(100, 100);
  const ReplicaArrays& a = replica.arrays;
  const auto executor = MakeHostExecutor(a, {}, {"delay_compensated", {{"strength", 1000}}});
  std::vector<std::byte> out(MaxPayloadBytes(100));
  const auto run = [&](ChunkOpKind kind, float position) {
    const std::vector<float> weights(100, position);
    ChunkOp op{.kind = kind};
    op.in = reinterpret_cast<const std::byte*>(weights.data());
    op.in_bytes = 400;
    op.out = out.data();
    op.out_bytes = static_cast<uint32_t>(out.size());
    executor->Run({&op, 1});
  };
  std::fill_n(a.weights, 100, 1.0f);
  run(ChunkOpKind::kTake, 0);
  std::fill_n(a.weights, 100, 1.5f);
  for (int i = 1; i <= 10; ++i) run(ChunkOpKind::kExchange, static_cast<float>(-i));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.weights[i] - a.base[i], 0.5f);
}

// Progress of one's own that no diff left behind does not fade.
TEST(DecayedRule, DecaysOnlyWhatADiffLeavesBehind) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    if (codec.codec != Codec::kSparse) continue;
    SCOPED_TRACE(CodecName(codec));
    test::Replica replica(100, 100);
    const ReplicaArrays& a = replica.arrays;
    const auto executor = MakeHostExecutor(a, codec, {"decayed", {{"decay", 0.5}}});
    for (int i = 0; i < 100; ++i) a.weights[i] = 0.5f;
    const std::vector<float> position(100);
    ChunkOp op{.kind = ChunkOpKind::kExchange, .codec = Codec::kSparse, .acknowledged = true};
    op.in = reinterpret_cast<const std::byte*>(position.data());
    op.in_bytes = 400;
    executor->Run({&op, 1});
    for (int i = 0; i < 100; ++i) EXPECT_EQ(a.weights[i], 0.5f);
    // A diff of one element at most 30 others, by each codec.
    a.weights[7] = 2;
    std::vector<std::byte> out(MaxPayloadBytes(100));
    op.take = true;
    op.out = out.data();
    op.out_bytes = static_cast<uint32_t>(out.size());
    executor->Run({&op, 1});
    EXPECT_TRUE(op.result & kNonZero);
    int sent = 0;
    for (int i = 0; i < 100; ++i) {
      const float u = i == 7 ? 2 : 0.5f, d = a.pending[i];
      EXPECT_TRUE(d == 0 || d == u);
      EXPECT_EQ(a.weights[i], d + 0.5f * (u - d));
      sent += d != 0;
    }
    EXPECT_EQ(sent, codec.choice == SparseChoice::kThreshold ? 1 : 30);
  }
}

// The codec leaves some elements of a share of 1/4 unsent, which decay. The other three quarters
// are withheld for damping.
TEST(DecayedRule, LeavesWhatDampingWithholdsAsItIs) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    if (codec.codec != Codec::kSparse) continue;
    SCOPED_TRACE(CodecName(codec));
    test::Replica replica(100, 100);
    const ReplicaArrays& a = replica.arrays;
    const auto executor = MakeHostExecutor(a, codec, {"decayed", {{"decay", 0.5}}});
    for (int i = 0; i < 100; ++i) a.weights[i] = i % 10 == 7 ? 16 : 0.5f;
    std::vector<std::byte> out(MaxPayloadBytes(100));
    ChunkOp op{.kind = ChunkOpKind::kTake, .codec = Codec::kSparse};
    op.share = 0.25f;
    op.out = out.data();
    op.out_bytes = static_cast<uint32_t>(out.size());
    executor->Run({&op, 1});
    EXPECT_TRUE(op.result & kNonZero);
    int sent = 0;
    for (int i = 0; i < 100; ++i) {
      const float u = i % 10 == 7 ? 16 : 0.5f, d = a.pending[i];
      EXPECT_TRUE(d == 0 || d == 0.25f * u);
      EXPECT_EQ(a.weights[i], d + (0.5f * (0.25f * u - d) + 0.75f * u));
      sent += d != 0;
    }
    EXPECT_EQ(sent, codec.choice == SparseChoice::kThreshold ? 10 : 30);
  }
}

TEST(DecayedRule, LeavesProgressBelowTheThresholdAlone) {
  for (const Simd simd : test::SupportedSimd()) {
    test::Replica replica(50, 50);
    std::fill_n(replica.arrays.weights, 50, 0.25f);
    std::vector<std::byte> out(MaxPayloadBytes(50));
    ChunkOp op{.kind = ChunkOpKind::kTake, .codec = Codec::kSparse};
    op.out = out.data();
    op.out_bytes = static_cast<uint32_t>(out.size());
    MakeHostExecutor(replica.arrays, {Codec::kSparse, 0.5f}, {"decayed", {}}, simd)->Run({&op, 1});
    EXPECT_EQ(op.result, kRemainder);
    EXPECT_EQ(op.out_bytes, 0u);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(replica.arrays.weights[i], 0.25f);
  }
}

}  // namespace
}  // namespace millrace
