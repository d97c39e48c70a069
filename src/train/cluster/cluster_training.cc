#include "train/cluster/cluster_training.h"

#include <glog/logging.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/cluster/connect_ranks.h"

namespace millrace::inline train {
namespace {

// Interval at which other nodes' settings are read.
constexpr int64_t kCompareNs = 200'000'000;

StartCheck MakeStartCheck(const RunSetup& setup) {
  const caffe::SolverParameter& solver = setup.config.param;
  const bool momentum = solver.type() == "SGD" || solver.type() == "Nesterov";
  const NodeConfig& node = *setup.node_config;
  StartCheck check(
      ExpectSegments(node.topology, node.plan, setup.weights->size()),
      {.momentum = momentum ? solver.momentum() : 0,
       .look_ahead = solver.type() == "Nesterov" || solver.momentum_lookahead(),
       .local = solver.strategy().type() == "local",
       .rate_factor = [growth = GrowthOf(solver.type()), adding = setup.adding_solvers()](
                          double nodes, double staleness) -> double {
         return RateScale::FactorOf(growth, nodes, staleness, adding) * static_cast<float>(adding);
       }});
  for (const std::string& line : check.Lines()) LOG(INFO) << line;
  return check;
}

ClusterReplica ReplicaOf(const RunSetup& setup, ErrorSink* errors, const ThreadLoad* solvers) {
  ClusterReplica replica = setup.Replica();
  replica.clock = &setup.clock;
  replica.sink = errors;
  replica.solvers = solvers;
  return replica;
}

Settings SettingsOf(const SolverConfig& config) {
  const SolverNet& net = config.train;
  return SettingsOf(config.param, SelectLayers(net.param, net.state, net.source));
}

}  // namespace

ClusterTraining::ClusterTraining(RunSetup* setup, RunStop* run_stop, ErrorSink* errors,
                                 const ThreadLoad* solvers)
    : setup_(*setup),
      stop_(*run_stop),
      errors_(*errors),
      start_check_(MakeStartCheck(*setup)),
      reader_(setup->cluster_gpu() != nullptr ? WeightReader(setup->cluster_gpu())
                                              : WeightReader(setup->weights.get())),
      session_(*setup->node_config, ReplicaOf(*setup, errors, solvers), reader_,
               &run_stop->commands),
      settings_check_(&session_.peers(), NodeNames(setup->node_config->topology),
                      SettingsOf(setup->config)) {}

bool ClusterTraining::Join(Tester* tester) {
  if (!session_.Join()) return false;
  setup_.weights->Publish();
  ScaleRate();
  LogScaling(*setup_.node_config, GrowthOf(setup_.config.param.type()), setup_.adding_solvers(),
             setup_.rate_scale);
  UseMergedWeights(tester);
  DistributeEvaluation(tester);
  WatchShards();
  duty_ = std::make_unique<SnapshotDuty>(&session_.peers(), &setup_.clock);
  return true;
}

void ClusterTraining::UseMergedWeights(Tester* tester) {
  const ParamLayout& layout = setup_.net->layout();
  snapshot_weights_ = std::make_unique<MergedWeights>(&cluster(), reader_, layout);
  if (tester->empty()) return;
  test_weights_ = std::make_unique<MergedWeights>(&cluster(), reader_, layout);
  tester->BindWeights(test_weights_->data(),
                      [this](const std::function<bool()>& stop) { test_weights_->Read(stop); });
}

void ClusterTraining::DistributeEvaluation(Tester* tester) {
  if (!setup_.node_config->plan.distributed_evaluation || tester->empty()) return;
  if (!DistributedEvaluation::Fits(*tester)) {
    LOG(INFO) << "The test nets have too many outputs, or detections, or no batches, to divide "
                 "tests over the nodes";
    return;
  }
  distributed_evaluation_ = std::make_unique<DistributedEvaluation>(
      tester, TestPeersOf(&cluster()), &setup_.clock, [this] { return stop_.Stopped(0); });
  distributed_evaluation_->Join(setup_.weights->clock().claimed());
}

// Watches for absent shards, if this node reads the shard that the topology assigns to it.
void ClusterTraining::WatchShards() {
  const NodePlan& plan = setup_.node_config->plan;
  if (plan.shards == 1) return;
  if (setup_.options.shard_count != static_cast<uint64_t>(plan.shards) ||
      setup_.options.shard_index != static_cast<uint64_t>(plan.shard)) {
    return;
  }
  std::vector<ShardTakeover::Reader> readers;
  for (const TopologyNode& node : setup_.node_config->topology.nodes) {
    readers.push_back({node.name, static_cast<uint64_t>(node.shard)});
  }
  takeover_ = std::make_unique<ShardTakeover>(
      &session_.peers(), std::move(readers),
      [this](const std::vector<uint64_t>& absent) { setup_.data->SetAbsentShards(absent); },
      &setup_.clock);
}

void ClusterTraining::Watch(double seconds) {
  if (!stop_.stop) CheckStart(seconds);
  CompareSettings();
  ScaleRate();
  session_.failure_detector().Listen();
  if (takeover_ && !stop_.stop) takeover_->Poll();
}

void ClusterTraining::ScaleRate() {
  setup_.rate_scale.Set(RateFactor(cluster(), setup_.node_config->plan,
                                   GrowthOf(setup_.config.param.type()), setup_.adding_solvers()));
}

void ClusterTraining::CompareSettings() {
  const int64_t now = setup_.clock.NowNs();
  if (now < next_comparison_ns_) return;
  next_comparison_ns_ = now + kCompareNs;
  for (const SettingsCheck::Line& line : settings_check_.TakeNew()) {
    google::LogMessage(__FILE__, __LINE__, line.warning ? google::GLOG_WARNING : google::GLOG_INFO)
            .stream()
        << line.text;
  }
}

// Ends the run if its nodes cannot learn from each other. A node that joins late and a resumed run
// check the whole schedule as well.
void ClusterTraining::CheckStart(double seconds) {
  const IterationClock& clock = setup_.weights->clock();
  try {
    const StartProgress progress = {.solvers = setup_.solvers(),
                                    .own = clock.own(),
                                    .cluster = clock.global() - clock.start(),
                                    .seconds = seconds,
                                    .whole = setup_.config.param.max_iter()};
    for (const std::string& line : start_check_.Check(progress)) LOG(INFO) << line;
  } catch (const Error&) {
    errors_.Report(std::current_exception());
  }
}

void ClusterTraining::Publish(const StopConditions& conditions, int64_t max_iteration_ns) {
  session_.LogFailures();
  FollowTooShort();
  if (errors_.failed()) return PublishFailed();
  if (stop_.by_command) return session_.life().PublishStopped();
  FollowEarlyEnd(conditions);
  const bool at_end =
      setup_.weights->clock().claimed() >= setup_.config.param.max_iter() || stop_.condition_met;
  if (at_end) session_.life().PublishTraining(max_iteration_ns);
}

void ClusterTraining::FollowTooShort() {
  if (errors_.failed()) return;
  try {
    session_.ThrowIfTooShort();
  } catch (const ScheduleTooShort&) {
    errors_.Report(std::current_exception());
  }
}

void ClusterTraining::FollowEarlyEnd(const StopConditions& conditions) {
  if (stop_.condition_met) return;
  NodeLife& life = session_.life();
  std::optional<TerminationDetector::EarlyEnd> end = life.FindEarlyEnd();
  const std::string reason = conditions.reason();
  const int64_t claimed = setup_.weights->clock().claimed();
  if (!end && !reason.empty() && claimed < setup_.config.param.max_iter()) end = {claimed, reason};
  if (!end) return;
  LOG(INFO) << "Stop condition " << OneLine(end->reason);
  stop_.condition_met = stop_.stop = true;
  stop_.end_iteration = end->iteration;
  life.PublishEarlyEnd(*end);
}

// Publishes the failure at once, so that other nodes need not wait for this node's solvers to end.
void ClusterTraining::PublishFailed() {
  try {
    errors_.RethrowIfFailed();
  } catch (const std::exception&) {
    session_.PublishFailed(std::current_exception(), false);
  }
}

}  // namespace millrace::inline train
