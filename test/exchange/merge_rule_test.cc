// The registry of merge rules, and the promises that every registered rule keeps.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/rules/register_host_rule.h"
#include "test/exchange/replica.h"
#include "test/support/support.h"
#include "test/support/test_rules.h"

namespace millrace {
namespace {

using test::Replica;

const RegisterHostRule heavy_ball(test::HeavyBallDescriptor(), test::MakeHeavyBall);
const RegisterHostRule elastic(test::ElasticTestDescriptor(), test::MakeElasticTest);

// Each registered rule with its defaults, and with each parameter at each of its bounds.
std::vector<MergeRuleConfig> AllConfigs() {
  std::vector<MergeRuleConfig> all;
  for (const std::string& name : MergeRuleRegistry::Get().Names()) {
    all.push_back({name, {}});
    for (const PartParameter& each : MergeRuleRegistry::Get().Find(name)->parameters) {
      for (const double value : {each.least, each.most})
        all.push_back({name, {{each.name, value}}});
    }
  }
  return all;
}

std::string Text(const MergeRuleConfig& config) {
  std::string text = config.name;
  for (const auto& [name, value] : config.parameters) text += StrCat(" ", name, "=", value);
  return text;
}

TEST(MergeRuleRegistry, HasTheAdditiveRule) {
  const MergeRuleDescriptor* const rule = MergeRuleRegistry::Get().Find(MergeRuleConfig().name);
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->name, "additive");
  EXPECT_TRUE(rule->parameters.empty());
  EXPECT_EQ(rule->state_floats, 0);
  EXPECT_EQ(rule->RestDistance({}), 0);
}

TEST(MergeRuleRegistry, TakesTheStateFromTheRule) {
  EXPECT_EQ(MergeRuleRegistry::Get().Find("heavy_ball")->state_floats, 1);
  EXPECT_EQ(MergeRuleRegistry::Get().Find("elastic_test")->state_floats, 0);
  EXPECT_EQ(MergeRuleRegistry::Get().Find("outer")->state_floats, 2);
}

TEST(MergeRuleRegistry, FillsInDefaults) {
  const MergeRuleDescriptor& rule = *MergeRuleRegistry::Get().Find("elastic_test");
  EXPECT_EQ(rule.WithDefaults({{"rest", 0.5}}), (RuleParameters{{"pull", 0.25}, {"rest", 0.5}}));
  EXPECT_EQ(rule.RestDistance({}), 0.125f);
  EXPECT_EQ(rule.RestDistance({{"rest", 0.5}}), 0.5f);
}

TEST(MergeRuleRegistry, RefusesWhatNoRuleTakes) {
  const auto error = [](const MergeRuleConfig& config) {
    return test::ErrorOf([&] { MakeHostExecutor({}, {}, config); });
  };
  EXPECT_EQ(
      error({"mean", {}}),
      "unknown merge rule mean: expected one of additive, average, cgad, decayed, "
      "delay_compensated, easgd, elastic, elastic_test, gap_aware, heavy_ball, heloco, mla, outer, "
      "span_damped, span_decay, span_momentum, staleness");
  EXPECT_EQ(error({"additive", {{"pull", 1}}}), "merge rule additive: it has no parameter pull");
  for (const double bad : {-0.1, 0.9, std::nan("")}) {
    EXPECT_EQ(error({"heavy_ball", {{"keep", bad}}}),
              StrCat("merge rule heavy_ball: keep is ", bad, ": expected 0 to 0.875"));
  }
}

TEST(MergeRuleRegistry, RefusesRulesThatHaveNoEffectWithACodec) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    Replica replica(10, 10);
    const auto make = [&] { MakeHostExecutor(replica.arrays, codec, {"decayed", {}}); };
    if (codec.codec == Codec::kSparse) {
      EXPECT_NO_THROW(make());
      continue;
    }
    EXPECT_EQ(test::ErrorOf(make),
              "merge rule decayed: codec is " + CodecName(codec) +
                  ", which leaves nothing unsent: expected sparse, topk or random");
  }
}

TEST(MergeRules, HaveDefaultsInTheirRanges) {
  for (const std::string& name : MergeRuleRegistry::Get().Names()) {
    const MergeRuleDescriptor& rule = *MergeRuleRegistry::Get().Find(name);
    EXPECT_EQ(rule.name, name);
    for (const PartParameter& each : rule.parameters) {
      EXPECT_FALSE(each.name.empty()) << name;
      EXPECT_TRUE(each.Accepts(each.default_value)) << name << ' ' << each.name;
      EXPECT_EQ(rule.FindParameter(each.name), &each);
    }
  }
}

// A codec that the rule works with, and that sends all progress in the end.
CodecConfig CodecFor(const std::string& name) {
  if (MergeRuleRegistry::Get().WorksWith(name, {})) return {};
  return {Codec::kSparse, 0, SparseChoice::kTop, 0.1};
}

// A worker and its master, without a network.
class Ends {
 public:
  Ends(const MergeRuleConfig& rule, const CodecConfig& codec, int64_t size)
      : codec_(codec.codec),
        worker_(size, size),
        master_(size, size),
        worker_executor_(MakeHostExecutor(worker_.arrays, codec, rule)),
        master_executor_(MakeHostExecutor(master_.arrays, codec, rule)),
        diff_(4 * static_cast<size_t>(size)),
        position_(diff_.size()) {}

  // Sends one diff to the master, and the master's position back. Returns false if the worker is at
  // rest.
  bool Exchange() {
    ChunkOp take{.kind = ChunkOpKind::kTake, .codec = codec_};
    take.out = diff_.data();
    take.out_bytes = static_cast<uint32_t>(diff_.size());
    worker_executor_->Run({&take, 1});
    if (!(take.result & kNonZero)) return false;
    ChunkOp merge{.kind = ChunkOpKind::kMerge, .codec = take.out_codec};
    merge.in = diff_.data();
    merge.in_bytes = take.out_bytes;
    ChunkOp read{.kind = ChunkOpKind::kRead};
    read.out = position_.data();
    read.out_bytes = static_cast<uint32_t>(position_.size());
    master_executor_->Run({&merge, 1});
    master_executor_->Run({&read, 1});
    ChunkOp exchange{.kind = ChunkOpKind::kExchange, .acknowledged = true};
    exchange.in = position_.data();
    exchange.in_bytes = read.out_bytes;
    worker_executor_->Run({&exchange, 1});
    return true;
  }

  const Codec codec_;
  Replica worker_, master_;
  const std::unique_ptr<ChunkExecutor> worker_executor_, master_executor_;

 private:
  std::vector<std::byte> diff_, position_;
};

TEST(MergeRules, ComeToRestWithinTheirDistance) {
  constexpr int64_t kFloats = 100;
  constexpr int kMaxExchanges = 1000;
  Rng rng(test::Seed(), {1});
  for (const MergeRuleConfig& config : AllConfigs()) {
    SCOPED_TRACE(Text(config));
    const float distance = MergeRuleRegistry::Get().Check(config).RestDistance(config.parameters);
    Ends ends(config, CodecFor(config.name), kFloats);
    for (int round = 0; round < 20; ++round) {
      for (int64_t i = 0; i < kFloats; ++i) ends.worker_.arrays.weights[i] += rng.Gaussian();
      int exchanges = 0;
      while (ends.Exchange() && exchanges < kMaxExchanges) ++exchanges;
      ASSERT_LT(exchanges, kMaxExchanges);
      ASSERT_GT(exchanges, 0);
      for (int64_t i = 0; i < kFloats; ++i) {
        const float w = ends.worker_.arrays.weights[i], base = ends.worker_.arrays.base[i];
        ASSERT_LE(std::fabs(w - base), distance) << i;
        ASSERT_EQ(base, ends.master_.arrays.weights[i]) << i;
      }
    }
    ChunkOp drop{.kind = ChunkOpKind::kDropRest};
    ends.worker_executor_->Run({&drop, 1});
    for (int64_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(ends.worker_.arrays.weights[i], ends.master_.arrays.weights[i]) << i;
    }
  }
}

// The state of a master that gave a chunk up must not meet later diffs.
TEST(MergeRules, BeginEachMastershipWithoutState) {
  for (const MergeRuleConfig& config : AllConfigs()) {
    SCOPED_TRACE(Text(config));
    const int floats = MergeRuleRegistry::Get().Check(config).state_floats;
    for (const ChunkOpKind kind : {ChunkOpKind::kDemote, ChunkOpKind::kLoad}) {
      Replica replica(50, 20);
      std::fill_n(replica.arrays.rule_state, 50 * kMaxStateFloats, 3.0f);
      const std::vector<float> position(20, 1.0f);
      ChunkOp op{.kind = kind, .chunk = 1};
      op.in = reinterpret_cast<const std::byte*>(position.data());
      op.in_bytes = 80;
      MakeHostExecutor(replica.arrays, CodecFor(config.name), config)->Run({&op, 1});
      for (int64_t i = 0; i < 50 * kMaxStateFloats; ++i) {
        const bool is_cleared = i < 50 * floats && i % 50 >= 20 && i % 50 < 40;
        EXPECT_EQ(replica.arrays.rule_state[i], is_cleared ? 0 : 3) << i;
      }
      EXPECT_TRUE(replica.GuardsIntact());
    }
  }
}

}  // namespace
}  // namespace millrace
