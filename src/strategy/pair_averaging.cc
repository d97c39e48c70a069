#include "strategy/pair_averaging.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "base/threads/range_lock.h"
#include "millrace/device.h"
#include "proto/part_values.h"
#include "strategy/local_merger.h"
#include "strategy/strategy_plans.h"
#include "weights/copy_weights.h"

namespace millrace::inline strategy {
namespace {

constexpr uint64_t kPartnerStream = 2000;
constexpr int64_t kAveragedBlock = 4096;  // floats that are averaged within some microseconds

}  // namespace

// Not static: the thread sanitizer's suppressions match names with their namespace.

// Solvers read their weights meanwhile.
__attribute__((noinline)) void HogwildUpdateAverage(int64_t count, float* a, float* b) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float mean = 0.5f * (a[i] + b[i]);
    a[i] = mean;
    b[i] = mean;
  }
}

struct PairOfArrays {
  float *weights, *slow, *velocity;
};
// The same by a rule.
__attribute__((noinline)) void HogwildUpdateNoLoCo(const NoLoCo& rule, int64_t count,
                                                   const PairOfArrays& a, const PairOfArrays& b) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const NoLoCo::Means mean = rule.MeansOf(a.weights[i], a.slow[i], b.weights[i], b.slow[i]);
    rule.Step(mean, &a.weights[i], &a.slow[i], &a.velocity[i]);
    rule.Step(mean, &b.weights[i], &b.slow[i], &b.velocity[i]);
  }
}

// Tests may read the run's weights meanwhile.
__attribute__((noinline)) void HogwildUpdateMean(const std::vector<float*>& parts, int64_t count,
                                                 float* mean) {
  const double share = 1.0 / static_cast<double>(parts.size());
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (const float* part : parts) sum += part[i];
    mean[i] = static_cast<float>(sum * share);
  }
}

PairTeam::Array::Array(int64_t size, int solvers, bool has_rule)
    : weights(HostDevice().memory(), size * sizeof(float)),
      slow(HostDevice().memory(), has_rule ? size * sizeof(float) : 0),
      velocity(HostDevice().memory(), has_rule ? size * sizeof(float) : 0),
      lock(weights.get<float>()) {
  for (int i = 0; i < solvers; ++i) {
    holders.push_back(std::make_unique<RangeLock::Exclusive>(&lock));
  }
}

PairTeam::PairTeam(WeightBuffer* weights, int solvers, uint64_t seed, std::optional<NoLoCo> rule,
                   const ContinuedState& state)
    : run_(*weights), seed_(seed), rule_(rule), all_(solvers) {
  std::iota(all_.begin(), all_.end(), 0);
  const auto size = static_cast<size_t>(weights->size());
  for (int i = 0; i < solvers; ++i) {
    arrays_.push_back(std::make_unique<Array>(weights->size(), solvers, rule.has_value()));
    const auto fill = [&](const Buffer& to, const char* name, const float* at_first) {
      if (state.run != nullptr) at_first = state.OfSolver(i).Array(name, size).data();
      std::copy_n(at_first, size, to.get<float>());
    };
    const Array& own = *arrays_.back();
    fill(own.weights, "weights", weights->data());
    if (!rule) continue;
    const std::vector<float> none(size);
    fill(own.slow, "slow", weights->data());
    fill(own.velocity, "velocity", none.data());
  }
}

PairTeam::~PairTeam() = default;

int PairTeam::PartnerOf(int solver, uint64_t round) const {
  Rng rng(seed_, {kPartnerStream, static_cast<uint64_t>(solver), round});
  const auto partner = static_cast<int>(rng.Below(static_cast<uint64_t>(solvers() - 1)));
  return partner + (partner >= solver);
}

template <typename Work>
void PairTeam::WithBlocks(int solver, const std::vector<int>& which, int64_t begin, int64_t count,
                          Work work) {
  // In the same order in all threads. Updates hold their range for a microsecond.
  for (const int i : which) {
    while (!arrays_[i]->holders[solver]->TryLock(weights(i) + begin, count)) {
      std::this_thread::yield();
    }
  }
  work();
  for (const int i : which) arrays_[i]->holders[solver]->Unlock();
}

void PairTeam::Average(int solver, int partner) {
  const std::vector<int> both = {std::min(solver, partner), std::max(solver, partner)};
  for (int64_t begin = 0; begin < run_.size(); begin += kAveragedBlock) {
    const int64_t count = std::min(kAveragedBlock, run_.size() - begin);
    const auto at = [&](int i) -> PairOfArrays {
      const Array& of = *arrays_[i];
      return {of.weights.get<float>() + begin, of.slow.get<float>() + begin,
              of.velocity.get<float>() + begin};
    };
    WithBlocks(solver, both, begin, count, [&] {
      if (rule_) return HogwildUpdateNoLoCo(*rule_, count, at(solver), at(partner));
      HogwildUpdateAverage(count, weights(solver) + begin, weights(partner) + begin);
    });
  }
}

void PairTeam::Export(int solver, SolverPart* part) const {
  const Array& own = *arrays_[solver];
  const auto add = [&](const char* name, const Buffer& from) {
    std::vector<float> copy(static_cast<size_t>(run_.size()));
    HogwildReadWeights(run_.size(), from.get<float>(), copy.data());
    AddArray(name, copy, part);
  };
  add("weights", own.weights);
  if (!rule_) return;
  add("slow", own.slow);
  add("velocity", own.velocity);
}

void PairTeam::SetRunToMean(int solver, UpdateLock* holder) {
  std::vector<float*> parts(solvers());
  for (int64_t begin = 0; begin < run_.size(); begin += kAveragedBlock) {
    const int64_t count = std::min(kAveragedBlock, run_.size() - begin);
    for (int i = 0; i < solvers(); ++i) parts[i] = weights(i) + begin;
    WithBlocks(solver, all_, begin, count, [&] {
      ForLockedBlocks(holder, run_.data(), begin, count, [&](int64_t first, int64_t size) {
        std::vector<float*> from(parts);
        for (float*& part : from) part += first - begin;
        HogwildUpdateMean(from, size, run_.data() + first);
      });
    });
  }
}

PairAveraging::PairAveraging(PairTeam* team, int index, SyncConditions conditions,
                             const Clock* clock, DeviceWeights* replica)
    : team_(*team),
      index_(index),
      conditions_(std::move(conditions)),
      time_(*clock),
      clock_(team->run().clock()),
      replica_(replica),
      copy_(replica ? std::optional<ReplicaCopy>(replica) : std::nullopt),
      own_holder_(team->lock(index)),
      run_holder_(&team->run().locks()),
      slot_(clock_.RegisterSolver()),
      merged_global_(clock_.global()),
      merged_seconds_(time_.NowSeconds()) {
  if (!copy_ && !conditions_.ReadsWeights()) return;
  const size_t bytes = static_cast<size_t>(team_.run().size()) * sizeof(float);
  own_ = Buffer(copy_ ? copy_->staging() : HostDevice().memory(), bytes);
  base_ = Buffer(HostDevice().memory(), bytes);
  for (const Buffer* copy : {&own_, &base_}) {
    std::copy_n(team_.weights(index_), team_.run().size(), copy->get<float>());
  }
  if (copy_) copy_->Write(own_.get<float>());
}

PairAveraging::~PairAveraging() { clock_.ReleaseSolver(slot_); }

void PairAveraging::Prepare(UpdateRule* rule) {
  if (copy_) {
    copy_->SetQueue(&rule->queue());
  } else {
    rule->LockWith(&own_holder_);
  }
}

void PairAveraging::Update(float rate, const float* gradients, UpdateRule* rule) {
  Write(&rule->queue(), [&] { rule->Apply(rate, look_ahead(), gradients, weights()); });
}

void PairAveraging::Write(Queue* queue, const std::function<void()>& write) {
  if (replica_ == nullptr) return write();
  replica_->order().Write(*queue, write);
}

void PairAveraging::ExportState(SolverPart* part) const {
  team_.Export(index_, part);
  const double merges[] = {static_cast<double>(round_), static_cast<double>(since_merge_),
                           static_cast<double>(clock_.global() - merged_global_)};
  AddNumbers("merges", merges, part);
  conditions_.Export(part);
}

void PairAveraging::RestoreState(const StateReader& stored) {
  const std::vector<int64_t> merges = stored.Counts("merges", 3);
  round_ = static_cast<uint64_t>(merges[0]);
  since_merge_ = merges[1];
  merged_global_ = clock_.global() - merges[2];
  conditions_.Restore(stored);
}

void PairAveraging::ReadOwn() {
  if (!copy_) {
    HogwildReadWeights(team_.run().size(), team_.weights(index_), own_.get<float>());
  } else if (!current_) {
    copy_->Read(own_.get<float>());
  }
  current_ = true;
}

void PairAveraging::Push() {
  if (!copy_) return;
  ReadOwn();
  ForLockedBlocks(&own_holder_, team_.weights(index_), 0, team_.run().size(),
                  [&](int64_t begin, int64_t count) {
                    HogwildUpdatePush(1, count, team_.weights(index_) + begin,
                                      own_.get<float>() + begin, base_.get<float>() + begin);
                  });
}

// After Push.
void PairAveraging::Fetch() {
  if (!copy_) return;
  ForLockedBlocks(&own_holder_, team_.weights(index_), 0, team_.run().size(),
                  [&](int64_t begin, int64_t count) {
                    HogwildUpdateFetch(count, team_.weights(index_) + begin,
                                       own_.get<float>() + begin, base_.get<float>() + begin);
                  });
  copy_->Write(own_.get<float>());
}

void PairAveraging::Flush() {
  Push();
  Fetch();
  team_.SetRunToMean(index_, &run_holder_);
}

void PairAveraging::Publish() {
  Push();
  team_.SetRunToMean(index_, &run_holder_);
}

bool PairAveraging::IsDue() {
  if (conditions_.empty()) return true;
  const bool reads = conditions_.ReadsWeights();
  if (reads) ReadOwn();
  const size_t size = reads ? static_cast<size_t>(team_.run().size()) : 0;
  const SyncState state{.iterations = since_merge_,
                        .shared_iterations = clock_.global() + 1 - merged_global_,
                        .seconds = time_.NowSeconds() - merged_seconds_,
                        .weights = {own_.get<float>(), size},
                        .base = {base_.get<float>(), size}};
  if (!conditions_.Fires(state)) return false;
  conditions_.Merging(state);
  return true;
}

void PairAveraging::Complete() {
  ++since_merge_;
  current_ = false;
  if (replica_ != nullptr) replica_->CountIteration();
  if (team_.solvers() > 1 && IsDue()) {
    Push();
    team_.Average(index_, team_.PartnerOf(index_, round_++));
    Fetch();
    if (!copy_ && conditions_.ReadsWeights()) {
      HogwildReadWeights(team_.run().size(), team_.weights(index_), base_.get<float>());
    }
    since_merge_ = 0;
    merged_global_ = clock_.global() + 1;
    merged_seconds_ = time_.NowSeconds();
  }
  clock_.Done(slot_);
}

// strategy { type: "gossip" }: solvers that average their weights in pairs (docs/learning.md).
namespace {

struct GossipRule {
  PartDescriptor part;
};

const PartRegistry<GossipRule>& GossipRules() {
  static const PartRegistry<GossipRule> rules(
      "merge rule of the strategy gossip",
      {{{.name = "noloco",
         .parameters = {{.name = "momentum", .default_value = 0.5, .least = 0, .most = 0.99},
                        {.name = "rate", .default_value = 0.7, .least = 0, .most = 2},
                        {.name = "pull", .default_value = 1, .least = 0.01, .most = 2}}}}});
  return rules;
}

// None: solvers take the mean. Throws FieldError.
std::optional<NoLoCo> RuleOf(const caffe::StrategyParameter& strategy) {
  if (!strategy.has_merge_rule()) return std::nullopt;
  const caffe::PartParameter& rule = strategy.merge_rule();
  const auto [entry, values] =
      GossipRules().Choose("strategy.merge_rule", rule.type(), ValuesOf(rule.param()));
  const auto value = [&, &of = values](const char* name) {
    return static_cast<float>(of.at(name));
  };
  return NoLoCo{value("momentum"), value("rate"), value("pull")};
}

}  // namespace

GossipPlan::GossipPlan(const caffe::SolverParameter& param, const PartValues& /*values*/)
    : rule(RuleOf(param.strategy())), conditions(param.strategy()) {
  rule_with_state = rule ? "gossip noloco" : "gossip";
}

StrategyMaker GossipPlan::Make(const StrategyContext& context) const {
  const auto refuse = [](const char* what) {
    throw FieldError("strategy.type",
                     "is gossip, whose solvers average their weights in pairs in "
                     "the memory of one process, expected no ",
                     what);
  };
  if (context.in_cluster) refuse("topology");
  if (context.weights_are_shared) refuse("weights that processes share (--shm)");
  if (context.solvers > PairTeam::kMaxSolvers) {
    throw FieldError("strategy.type", "is gossip, which has at most ", PairTeam::kMaxSolvers,
                     " solvers, ", context.solvers, " given");
  }
  const auto team = std::make_shared<PairTeam>(context.weights, context.solvers,
                                               context.config->seed, rule, context.state);
  return [this, context, team](int index) {
    auto strategy = std::make_unique<PairAveraging>(team.get(), index, conditions.Make(),
                                                    context.clock, context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

namespace {

const RegisterStrategy gossip({{.name = "gossip"}, MakePlan<GossipPlan>});

}  // namespace
}  // namespace millrace::inline strategy
