// What concurrent writers cost each other: updates that solvers and exchanges lose or reverse.
//
// Two nodes of one process train LeNet beside a segment over UDP (127.0.0.1), with the program's
// own net, update rule, segment, segment thread and executor at the default pace. For every update
// to be accounted for, the gradient that each solver applies is replaced by one of whole numbers:
// with each iteration, every weight grows by the node's unit. (Forward and backward run on weights
// of their own.) At the end the solvers stop, the segment comes to rest, and what is missing of
// node a's units and of node b's is counted in every weight.
//
//   build/bench/lost_updates --seconds=30 --locks=true --solvers_b=1
//
// With --solvers_b=0 only node a trains: what is missing then are updates of a solver that its own
// node's executor has overwritten. With more than one solver a node, Hogwild's own losses come on
// top: updates that solvers of a node lose to each other.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <omp.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads/range_lock.h"
#include "cluster/start.h"
#include "linktest/bench_phase.h"
#include "linktest/reading.h"
#include "millrace/transport_registry.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/update_rule.h"
#include "topology/plan.h"

DEFINE_double(seconds, 30, "of training");
DEFINE_bool(locks, true, "whether solvers and executors keep out of each other's way");
DEFINE_int32(solvers_a, 1, "threads that train at node a");
DEFINE_int32(solvers_b, 1, "and at node b");
DEFINE_bool(train, true, "false: updates only, one after the other, without forward and backward");
DEFINE_string(model, "examples/mnist/lenet_train_test.prototxt", "a net with data of 1x28x28");

namespace millrace {
namespace {

constexpr float kUnits[] = {1, 4096};
constexpr int64_t kMaxPasses = 2000;  // whole numbers up to 2^24 are exact

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// The model without its data: batches of 64 constants.
caffe::NetParameter Model() {
  caffe::NetParameter model, data;
  LoadText(FLAGS_model, &model, nullptr);
  ParseText(
      "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
      " shape { dim: 64 dim: 1 dim: 28 dim: 28 } shape { dim: 64 }"
      " data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' value: 3 } } }",
      "data", &data, nullptr);
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.type() != "Data" && layer.type() != "Accuracy") *data.add_layer() = layer;
  }
  return data;
}

caffe::SolverParameter SolverOf() {
  caffe::SolverParameter param;
  ParseText("type: 'SGD' momentum: 0 weight_decay: 0", "solver", &param, nullptr);
  return param;
}

struct Node {
  Buffer weights;
  std::unique_ptr<RangeLock> locks;
  IterationClock iterations;
  std::unique_ptr<Cluster> cluster;
  std::atomic<int64_t> passes{0};
};

class Run {
 public:
  Run() : layout_(BuiltNet(Model(), {}, {}).layout()) {
    const Topology topology = ParseTopology(
        "name: 'lost_updates' node { name: 'a' address: '127.0.0.1' }"
        " node { name: 'b' address: '127.0.0.2' } segment { name: 's' transport: 'udp' }",
        "lost_updates", TransportRegistry::Get().Names());
    for (NodeId id = 0; id < 2; ++id) {
      Node& node = nodes_[id];
      node.weights = Buffer(HostMemory(), 4 * layout_.size());
      HostMemory().Fill(node.weights.get(), 0, node.weights.bytes());
      node.locks = std::make_unique<RangeLock>(node.weights.get<float>());
      node.cluster =
          StartCluster(topology, PlanFor(topology, id),
                       {.weights = node.weights.get<float>(),
                        .size = layout_.size(),
                        .layout_digest = layout_.Digest(),
                        .start = 0,
                        .iterations = &node.iterations,
                        .clock = &clock_,
                        .sink = &errors_,
                        .replica_device = HostReplica(FLAGS_locks ? node.locks.get() : nullptr)});
    }
    while (!InSync()) Nap();
  }

  void Train() {
    const double begin = clock_.NowSeconds();
    {
      std::vector<std::thread> solvers;
      for (int i = 0; i < FLAGS_solvers_a; ++i) solvers.emplace_back([this] { Solve(0); });
      for (int i = 0; i < FLAGS_solvers_b; ++i) solvers.emplace_back([this] { Solve(1); });
      while (clock_.NowSeconds() - begin < FLAGS_seconds && !stop_) Nap();
      stop_ = true;
      for (std::thread& solver : solvers) solver.join();
    }
    seconds_ = clock_.NowSeconds() - begin;
    for (QuiescenceDetector watch; !watch.IsQuiescent(Moved(), clock_.NowSeconds()); Nap()) {
      errors_.RethrowIfFailed();
    }
  }

  void Report() const {
    double lost[2] = {}, reversed[2] = {};
    int64_t differ = 0;
    const auto* a = nodes_[0].weights.get<float>();
    const auto* b = nodes_[1].weights.get<float>();
    for (const UpdateParam& param : params_) {
      for (int64_t i = param.offset; i < param.offset + param.count; ++i) {
        differ += a[i] != b[i];
        double missing = -a[i];
        for (int id = 0; id < 2; ++id) missing += kUnits[id] * static_cast<double>(Passes(id));
        const double of_b = std::round(missing / kUnits[1]);
        const double of[] = {missing - of_b * kUnits[1], of_b};
        for (int id = 0; id < 2; ++id) (of[id] > 0 ? lost : reversed)[id] += std::fabs(of[id]);
      }
    }
    std::printf("locks %d, %.1f s, %.1f iterations/s; weights that differ at rest: %ld\n",
                FLAGS_locks, seconds_, static_cast<double>(Passes(0) + Passes(1)) / seconds_,
                differ);
    for (int id = 0; id < 2; ++id) {
      const auto updates = static_cast<double>(Passes(id)) * static_cast<double>(count_);
      const EndReading end = ReadCounters(*nodes_[id].cluster).ends.front();
      uint64_t taken = 0, merged = 0;
      for (const auto& [peer, stats] : end.peers) {
        taken += stats.positions_taken;
        merged += stats.diffs_merged;
      }
      const auto busy = end.drops.find("busy");
      std::printf(
          "node %c: %ld iterations, %.3e updates of weights: missing %.0f (%.2e), too many %.0f; "
          "%lu positions taken, %lu diffs merged, %lu frames refused as busy\n",
          'a' + id, Passes(id), updates, lost[id], updates > 0 ? lost[id] / updates : 0,
          reversed[id], taken, merged, busy == end.drops.end() ? 0 : busy->second);
    }
  }

 private:
  bool InSync() {
    errors_.RethrowIfFailed();
    return std::ranges::all_of(nodes_, [](const Node& node) {
      return node.cluster->begun() && node.cluster->in_sync() && node.cluster->members() == 2;
    });
  }
  int64_t Passes(int id) const { return nodes_[id].passes; }
  uint64_t Moved() const {
    return ReadCounters(*nodes_[0].cluster).moved() + ReadCounters(*nodes_[1].cluster).moved();
  }

  // As SolverWorker::Run.
  void Solve(int id) {
    omp_set_num_threads(1);
    Node& node = nodes_[id];
    BuiltNet net(Model(), {}, {});
    net.FillWeights();
    std::vector<UpdateParam> params = UpdateParamsOf(net);
    for (UpdateParam& param : params) param.lr_mult = 1;
    const auto rule = UpdateRuleRegistry::Get().Create(SolverOf(), params, layout_.size());
    UpdateLock holder(node.locks.get());
    if (FLAGS_locks) rule->LockWith(&holder);
    const std::vector<float> gradients(layout_.size(), -1);
    const int slot = node.iterations.RegisterSolver();
    while (!stop_ && node.passes < kMaxPasses) {
      if (FLAGS_train) {
        net.ClearGradients();
        net.Forward();
        net.Backward();
      }
      rule->Apply(kUnits[id], true, gradients.data(), node.weights.get<float>());
      ++node.passes;
      node.iterations.Done(slot);
    }
    node.iterations.ReleaseSolver(slot);
    if (node.passes >= kMaxPasses) stop_ = true;
  }

  const ParamLayout layout_;
  const std::vector<UpdateParam> params_ = UpdateParamsOf(BuiltNet(Model(), {}, {}));
  const int64_t count_ = [this] {
    int64_t sum = 0;
    for (const UpdateParam& param : params_) sum += param.count;
    return sum;
  }();
  SteadyClock clock_;
  ErrorSink errors_;
  Node nodes_[2];
  std::atomic<bool> stop_{false};
  double seconds_ = 0;
};

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_minloglevel = google::GLOG_WARNING;
  FLAGS_logtostderr = true;
  try {
    millrace::Run run;
    run.Train();
    run.Report();
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "lost_updates: %s\n", error.what());
    return 1;
  }
}
