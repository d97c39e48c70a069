#include "test/chaos/program/peer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "test/chaos/program/injector.h"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPort = 29400;
constexpr double kStartSeconds = 120;  // until all nodes train, at the start
constexpr auto kStep = std::chrono::milliseconds(20);

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The processes below `pid`, which have sessions of their own.
std::vector<pid_t> Descendants(pid_t pid) {
  std::vector<pid_t> all;
  std::ifstream children(StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (pid_t child = 0; children >> child;) {
    all.push_back(child);
    for (const pid_t each : Descendants(child)) all.push_back(each);
  }
  return all;
}

// A node that runs torchrun. Its worker writes "iterations nodes rank" to FOLDER/NAME.state.
class PeerNode : public ChaosNode {
 public:
  PeerNode(const Network& network, int machine, std::vector<std::string> command,
           const std::string& folder)
      : ChaosNode(network, machine, std::move(command), folder),
        state_(StrCat(folder, "/", name(), ".state")) {}

  void Signal(int signal) override {
    const std::vector<pid_t> workers = running() ? Descendants(pid()) : std::vector<pid_t>();
    ChaosNode::Signal(signal);
    // torchrun itself ends its worker after SIGTERM.
    for (const pid_t each : workers) {
      if (signal != SIGTERM) kill(each, signal);
    }
  }

  void Update(const std::vector<CounterFileReading>&) override {
    if (starts() != seen_starts_) {
      seen_starts_ = starts();
      std::error_code ignored;
      std::filesystem::remove(state_, ignored);
    }
    std::ifstream file(state_);
    int64_t iterations = 0;
    int members = 0, rank = 0;
    if (!(file >> iterations >> members >> rank)) return;
    view_.global = iterations;
    view_.members = members;
    view_.is_leader = rank == 0;
    view_.in_sync = true;
  }

 protected:
  std::vector<std::string> MoreArguments() const override { return {}; }

 private:
  const std::string state_;
  int seen_starts_ = 0;
};

class PeerTraining {
 public:
  explicit PeerTraining(const PeerOptions& options)
      : options_(options),
        network_(1500, options.plan.nodes + 1),
        bad_(network_, Harm{}, options.plan.seed) {
    std::filesystem::remove_all(options_.folder);
    MakeDirectories(options_.folder);
    log_.open(options_.folder + "/faults.log");
    const std::string script = "test/chaos/program/peer.py";
    const std::string address = Network::AddressOf(options_.plan.nodes);
    const std::string endpoint = StrCat(address, ":", kPort);
    // The store by which nodes find each other is on a machine that no fault hits.
    store_ = std::make_unique<PeerNode>(
        network_, options_.plan.nodes,
        std::vector<std::string>{options_.python, script, "store", address, std::to_string(kPort)},
        options_.folder);
    for (int i = 0; i < options_.plan.nodes; ++i) {
      const char name = static_cast<char>('a' + i);
      nodes_.push_back(std::make_unique<PeerNode>(
          network_, i,
          std::vector<std::string>{
              "/usr/bin/env", StrCat("GLOO_SOCKET_IFNAME=", Network::DeviceOf(i)),
              "OMP_NUM_THREADS=1", options_.python, "-m", "torch.distributed.run",
              StrCat("--nnodes=1:", options_.plan.nodes), "--nproc_per_node=1",
              "--max_restarts=1000000", "--rdzv_backend=c10d", "--rdzv_endpoint=" + endpoint,
              "--rdzv_id=chaos",
              "--rdzv_conf=is_host=false,last_call_timeout=1,keep_alive_interval=1",
              StrCat("--local_addr=", Network::AddressOf(i)), "--monitor_interval=0.1", script,
              "train", StrCat(options_.folder, "/", name, ".state"),
              options_.folder + "/checkpoint.pt"},
          options_.folder));
    }
    injector_.emplace(network_, &bad_, &nodes_, std::vector<std::string>(), &log_);
  }

  PeerResult Run() {
    store_->Start();
    for (auto& node : nodes_) node->Start();
    const Clock::time_point begin = Clock::now();
    while (!AllTrain()) {
      if (SecondsSince(begin) > kStartSeconds) {
        result_.failure = StrCat("the nodes do not train together after ", kStartSeconds, " s");
      }
      if (!Step()) return result_;
    }
    result_.rate = RateOf(options_.whole_seconds, [](double) { return true; });
    const std::vector<Fault> plan = MakePlan(options_.plan);
    size_t next = 0;
    result_.fault_rate = RateOf(options_.plan.seconds, [&](double now) {
      injector_->EndDue(now);
      for (; next < plan.size() && plan[next].begin <= now; ++next) {
        if (now < plan[next].end) injector_->Begin(plan[next], now);
      }
      return true;
    });
    injector_->EndDue(-1);
    for (const int each : injector_->counts().injected) result_.injected += each;
    return result_;
  }

 private:
  bool AllTrain() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
      return node->view().members == options_.plan.nodes;
    });
  }

  int64_t Iterations() const {
    int64_t iterations = 0;
    for (const auto& node : nodes_) iterations = std::max(iterations, node->view().global);
    return iterations;
  }

  // Iterations per second over `seconds`; `act` is called all the time, with the seconds so far.
  template <typename Act>
  double RateOf(double seconds, Act act) {
    const int64_t before = Iterations();
    const Clock::time_point begin = Clock::now();
    while (SecondsSince(begin) < seconds && Step()) act(SecondsSince(begin));
    return static_cast<double>(Iterations() - before) / SecondsSince(begin);
  }

  bool Step() {
    std::this_thread::sleep_for(kStep);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      PeerNode& node = static_cast<PeerNode&>(*nodes_[i]);
      node.Update({});
      const std::optional<JoinTime> join = node.TakeJoin();
      if (join && node.starts() > 1) result_.joins.push_back(*join);
      if (node.Reap() && !node.was_killed() && !node.was_stopped()) {
        injector_->Lost(static_cast<int>(i));
      }
    }
    injector_->Poll();
    if (options_.interrupted != nullptr && *options_.interrupted) result_.failure = "interrupted";
    return result_.failure.empty();
  }

  const PeerOptions& options_;
  Network network_;
  BadSwitch bad_;
  std::ofstream log_;
  std::unique_ptr<PeerNode> store_;
  std::vector<std::unique_ptr<ChaosNode>> nodes_;
  std::optional<FaultInjector> injector_;
  PeerResult result_;
};

}  // namespace

PeerResult TrainPeer(const PeerOptions& options) {
  try {
    return PeerTraining(options).Run();
  } catch (const Error& error) {
    PeerResult result;
    result.failure = error.what();
    return result;
  }
}

}  // namespace millrace::test
