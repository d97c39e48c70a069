// Merge rules over spans (millrace/merge_rule.h), registered as a plugin registers them: through
// all codecs and instruction sets they must agree with the reference executor in every bit.
#include "exchange/kernels/rules/span_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/registration.h"
#include "examples/extend/elastic_rule.cc"
#include "exchange/kernels/host_executor.h"
#include "test/exchange/executor_pair.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ExecutorPair;
using test::ReferenceExecutor;
using test::ReferenceRule;

constexpr float kShare = 0.25f, kRest = 0.125f;

// What the master does. Each is a rule of its own.
enum class Merging {
  kDamped,    // with state, which counts what was merged; a zero changes nothing
  kMomentum,  // with two floats of state, which change the weight even if d is 0
  kDecay,     // without state; a zero changes the weight
};

int StateFloatsOf(Merging merging) {
  return merging == Merging::kDecay ? 0 : merging == Merging::kMomentum ? 2 : 1;
}

// One element, for the reference.
ReferenceRule ReferenceOf(Merging merging) {
  ReferenceRule rule;
  rule.zero_changes_nothing = merging == Merging::kDamped;
  rule.state_floats = StateFloatsOf(merging);
  rule.offer = [](float u) { return std::fabs(u) > kRest ? kShare * u : 0; };
  rule.keep = [](float u, float d) { return u - 2 * d; };
  rule.merge = [merging](float w, float d, float* state, uint32_t staleness) {
    if (merging == Merging::kDecay) return 0.5f * w + d;
    if (merging == Merging::kDamped) {
      *state = *state + d;
      return w + d / (1 + static_cast<float>(staleness));
    }
    state[0] = 0.5f * state[0] + d;
    state[1] = state[1] + 0.125f;
    return w + state[0] + state[1];
  };
  return rule;
}

// The same over spans. Every call is checked.
class TestRule : public MergeRule {
 public:
  explicit TestRule(Merging merging) : merging_(merging) {}

  void Select(std::span<const float> u, std::span<float> selected) const override {
    CheckSizes(u.size(), selected.size(), u.size());
    for (size_t i = 0; i < u.size(); ++i) selected[i] = std::fabs(u[i]) > kRest ? kShare * u[i] : 0;
  }
  void Residual(std::span<const float> u, std::span<const float> d,
                std::span<float> rest) const override {
    CheckSizes(u.size(), d.size(), rest.size());
    for (size_t i = 0; i < u.size(); ++i) rest[i] = u[i] - 2 * d[i];
  }
  void Apply(std::span<float> w, std::span<const float> d, std::span<float> state,
             uint32_t staleness) const override {
    CheckSizes(w.size(), d.size(), w.size());
    EXPECT_EQ(state.size(), static_cast<size_t>(StateFloatsOf(merging_)) * w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      // Intermediate values do no harm.
      const float before = w[i];
      w[i] = NAN;
      if (merging_ == Merging::kDecay) {
        w[i] = 0.5f * before + d[i];
      } else if (merging_ == Merging::kDamped) {
        state[i] = state[i] + d[i];
        w[i] = before + d[i] / (1 + static_cast<float>(staleness));
      } else {
        state[i] = 0.5f * state[i] + d[i];
        state[w.size() + i] = state[w.size() + i] + 0.125f;
        w[i] = before + state[i] + state[w.size() + i];
      }
    }
  }

 private:
  static void CheckSizes(size_t a, size_t b, size_t c) {
    EXPECT_GT(a, 0u);
    EXPECT_LE(a, static_cast<size_t>(kBlockFloats));
    EXPECT_EQ(a, b);
    EXPECT_EQ(a, c);
  }

  const Merging merging_;
};

MergeRuleDescriptor DescriptorOf(const std::string& name, Merging merging) {
  return {.name = name,
          .parameters = {},
          .rest_distance = [](const RuleParameters&) { return kRest; },
          .state_floats = StateFloatsOf(merging),
          .zero_changes_nothing = merging == Merging::kDamped};
}
MergeRuleFactory FactoryOf(Merging merging) {
  return [merging](const RuleParameters&) { return std::make_unique<TestRule>(merging); };
}

const RegisterMergeRule damped(DescriptorOf("span_damped", Merging::kDamped),
                               FactoryOf(Merging::kDamped));
const RegisterMergeRule momentum(DescriptorOf("span_momentum", Merging::kMomentum),
                                 FactoryOf(Merging::kMomentum));
const RegisterMergeRule decay(DescriptorOf("span_decay", Merging::kDecay),
                              FactoryOf(Merging::kDecay));

struct Case {
  MergeRuleConfig config;
  ReferenceRule reference;
};

std::vector<Case> Cases() {
  ReferenceRule elastic;
  elastic.offer = [](float u) { return std::fabs(u) > 0.5f ? 0.375f * u : 0; };
  elastic.keep = [](float u, float d) { return u - 2 * d; };
  return {{{"elastic", {{"pull", 0.375}, {"rest", 0.5}}}, elastic},
          {{"span_damped", {}}, ReferenceOf(Merging::kDamped)},
          {{"span_momentum", {}}, ReferenceOf(Merging::kMomentum)},
          {{"span_decay", {}}, ReferenceOf(Merging::kDecay)}};
}

ExecutorPair PairOf(const Case& rule, int64_t size, int64_t chunk, const CodecConfig& codec,
                    Simd simd) {
  return ExecutorPair(
      size, chunk,
      [&](const ReplicaArrays& arrays) {
        return MakeHostExecutor(arrays, codec, rule.config, simd);
      },
      [&](const ReplicaArrays& arrays) {
        return std::make_unique<ReferenceExecutor>(arrays, codec, rule.reference);
      });
}

TEST(SpanRule, AgreesWithTheReferenceInEveryBitOfAWorkersRun) {
  Rng rng(test::Seed(), {1});
  for (const Case& rule : Cases()) {
    SCOPED_TRACE(rule.config.name);
    test::ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
      ExecutorPair pair = PairOf(rule, size, chunk, config, simd);
      LiveLikeTheReference(&pair, config.codec, &rng);
    });
  }
}

TEST(SpanRule, MergesWhatWasEncodedLikeTheReference) {
  Rng rng(test::Seed(), {2});
  for (const Case& rule : Cases()) {
    SCOPED_TRACE(rule.config.name);
    test::ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
      ExecutorPair worker = PairOf(rule, size, chunk, config, simd),
                   master = PairOf(rule, size, chunk, config, simd);
      MergeLikeTheReference(&worker, &master, config.codec, &rng);
    });
  }
}

// Chunks of several blocks, and diffs with more present elements than a block has.
TEST(SpanRule, WorksInBlocks) {
  Rng rng(test::Seed(), {3});
  for (const Case& rule : Cases()) {
    for (Simd simd : test::SupportedSimd()) {
      for (const CodecConfig& codec : test::kAllCodecConfigs) {
        for (int64_t size : {kBlockFloats - 1, kBlockFloats, kBlockFloats + 1, 3 * kBlockFloats,
                             5 * kBlockFloats + 7}) {
          SCOPED_TRACE(StrCat(rule.config.name, " simd ", static_cast<int>(simd), " codec ",
                              CodecName(codec), " size ", size));
          CodecConfig config = codec;
          config.threshold = 1e-3f;
          ExecutorPair worker = PairOf(rule, size, size, config, simd),
                       master = PairOf(rule, size, size, config, simd);
          LiveLikeTheReference(&worker, codec.codec, &rng);
          MergeLikeTheReference(&worker, &master, codec.codec, &rng);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(SpanRule, IsForHostMemoryOnly) {
  EXPECT_EQ(MergeRuleRegistry::Get().ReachOf("elastic"), RuleReach::kHost);
  EXPECT_EQ(MergeRuleRegistry::Get().ReachOf("additive"), RuleReach::kAll);
}

// Mistakes are recorded, since nothing could catch an exception of a static initializer.
std::string MistakeOf(MergeRuleDescriptor descriptor, MergeRuleFactory make) {
  const std::vector<std::string> names = MergeRuleRegistry::Get().Names();
  const RegisterMergeRule bad(std::move(descriptor), std::move(make));
  EXPECT_EQ(MergeRuleRegistry::Get().Names(), names);
  const std::string thrown = test::ErrorOf([] { CheckRegistrations(); });
  const std::vector<std::string> mistakes = TakeBadRegistrations();
  EXPECT_EQ(mistakes, std::vector<std::string>{thrown});
  CheckRegistrations();
  return thrown;
}

TEST(SpanRuleRegistration, KeepsTheFirstOfTwoRulesOfOneName) {
  const MergeRuleDescriptor* const first = MergeRuleRegistry::Get().Find("elastic");
  EXPECT_EQ(MistakeOf({.name = "elastic"}, FactoryOf(Merging::kDecay)),
            "merge rule elastic: two of them have this name, expected one");
  EXPECT_EQ(MistakeOf({.name = "additive"}, FactoryOf(Merging::kDecay)),
            "merge rule additive: two of them have this name, expected one");
  EXPECT_EQ(MergeRuleRegistry::Get().Find("elastic"), first);
  EXPECT_EQ(first->parameters.size(), 2u);
}

TEST(SpanRuleRegistration, RefusesDescriptorsWithMistakes) {
  const MergeRuleFactory make = FactoryOf(Merging::kDecay);
  const auto mistake = [&](std::vector<PartParameter> parameters) {
    return MistakeOf({.name = "bad", .parameters = std::move(parameters)}, make);
  };
  for (const std::string name : {"", "Bad", "a b", "a-b"}) {
    EXPECT_EQ(MistakeOf({.name = name}, make),
              "merge rule " + name + ": expected a name of lower-case letters, digits and '_'");
  }
  EXPECT_EQ(mistake({{"x", 2, 0, 1}}),
            "merge rule bad: parameter x is 2 by default, expected 0 to 1");
  EXPECT_EQ(mistake({{"x", 0, 0, 1, true}}),
            "merge rule bad: parameter x is whole or required, expected neither");
  EXPECT_EQ(mistake({{"x", 0, 0, 1}, {"x", 0, 0, 1}}),
            "merge rule bad: parameter x is there twice, expected it once");
  EXPECT_EQ(mistake({{"the x", 0, 0, 1}}),
            "merge rule bad: parameter \"the x\": expected a name of lower-case letters, digits "
            "and '_'");
  EXPECT_EQ(MistakeOf({.name = "bad", .state_floats = 5}, make),
            "merge rule bad: state_floats is 5, expected 0 to 4");
  EXPECT_EQ(MistakeOf({.name = "bad"}, nullptr), "merge rule bad: it has no factory");
}

}  // namespace
}  // namespace millrace
