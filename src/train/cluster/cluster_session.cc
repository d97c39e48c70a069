#include "train/cluster/cluster_session.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/files/file.h"
#include "cluster/name_watch.h"
#include "cluster/start_check.h"
#include "proto/parse.h"
#include "solver/look_ahead.h"
#include "solver/rate_scale.h"
#include "solver/solver.h"
#include "topology/choose_node.h"
#include "transport/inet_address.h"
#include "transport/network_names.h"

namespace millrace::inline train {
namespace {

// Polling interval of a node that leaves.
constexpr int kStepMs = 5;
// Retry interval and timeout for starting the segments while the network is down.
constexpr int kRetryMs = 250;
constexpr int64_t kNetworkTimeoutNs = 60'000'000'000;
// Interval at which the names of unresponsive nodes are looked up.
constexpr int64_t kNameNs = 5'000'000'000;

// Peers whose frames arrive.
class HeardPeers {
 public:
  explicit HeardPeers(const Cluster* cluster) : cluster_(*cluster) {}
  // Segments and nodes from which frames have arrived since the last call.
  std::set<std::pair<size_t, NodeId>> Take() {
    std::set<std::pair<size_t, NodeId>> heard;
    for (size_t i = 0; i < cluster_.segments().size(); ++i) {
      const SegmentMetrics& metrics = cluster_.segments()[i].net->metrics();
      for (const NodeId node : metrics.peers()) {
        const uint64_t now = metrics.peer(node).frames_in;
        if (now != std::exchange(frames_[{i, node}], now)) heard.emplace(i, node);
      }
    }
    return heard;
  }

 private:
  const Cluster& cluster_;
  std::map<std::pair<size_t, NodeId>, uint64_t> frames_;
};

// Throws the last Error if the network stays down for too long, or if a command stops the run.
std::unique_ptr<Cluster> StartWhenUp(const NodeConfig& node_config, const ClusterReplica& replica,
                                     CommandReader* commands) {
  const int64_t begin = replica.clock->NowNs();
  for (bool waits = false;; waits = true) {
    try {
      return StartCluster(node_config.topology, node_config.plan, replica);
    } catch (const NetworkDownError& error) {
      if (replica.clock->NowNs() - begin >= kNetworkTimeoutNs) throw;
      if (!waits) {
        LOG(WARNING) << "Waiting up to " << kNetworkTimeoutNs / 1'000'000'000
                     << " s for the network: " << error.what();
      }
      if (commands->Next(kRetryMs) == RunCommand::kStop) throw;
    }
  }
}

}  // namespace

namespace {

// Pauses of a wait for the registry: until a command stops the run; without commands until
// kNetworkTimeoutNs have passed.
Rendezvous::Pause PauseOf(RunControl* control) {
  const auto clock = std::make_shared<const SteadyClock>();
  const auto commands = std::make_shared<CommandReader>(control, clock.get());
  const int64_t end = control == nullptr ? clock->NowNs() + kNetworkTimeoutNs : INT64_MAX;
  return [clock, commands, end](int milliseconds) {
    return commands->Next(milliseconds) == RunCommand::kStop || clock->NowNs() >= end;
  };
}

std::unique_ptr<NodeConfig> FindElasticNodeConfig(const TrainOptions& options) {
  if (!options.node.empty()) {
    throw Error("--node=", options.node,
                ": expected none with --rendezvous, which gives each node ", "an id");
  }
  const RendezvousConfig config = ParseRendezvous(options.rendezvous);
  auto found = std::make_unique<NodeConfig>();
  const bool has_file = !options.topology.empty();
  found->topology = ParseElasticTopology(
      has_file ? ReadFile(options.topology) : StrCat("name: \"", config.run, "\"\n"),
      has_file ? options.topology : "--rendezvous", config.run, config.max_nodes,
      TransportsForTopologies(), options.scales_rate);
  found->rendezvous = std::make_unique<Rendezvous>(config, PauseOf(options.control));
  const NodeId node = found->rendezvous->node();
  found->topology.nodes[node].adapters[0].address = found->rendezvous->address();
  found->plan = PlanFor(found->topology, node);
  found->plan.is_elastic = true;
  return found;
}

}  // namespace

std::unique_ptr<NodeConfig> FindNodeConfig(const TrainOptions& options) {
  if (!options.rendezvous.url.empty()) return FindElasticNodeConfig(options);
  if (!options.rendezvous.nodes.empty()) {
    throw Error("--nodes=", options.rendezvous.nodes, ": expected --rendezvous with it");
  }
  if (options.topology.empty()) {
    if (!options.node.empty())
      throw Error("--node=", options.node, ": expected --topology with it");
    return nullptr;
  }
  auto node_config = std::make_unique<NodeConfig>();
  node_config->topology =
      LoadTopology(options.topology, TransportsForTopologies(), options.scales_rate);
  node_config->plan =
      PlanFor(node_config->topology, ChooseNode(node_config->topology, options.node, getenv));
  return node_config;
}

uint32_t ExamplesOf(int64_t batch_size, const caffe::SolverParameter& solver, int solvers) {
  const double examples = static_cast<double>(batch_size) * solver.iter_size() * solvers;
  return static_cast<uint32_t>(std::clamp<double>(examples, 0, UINT32_MAX));
}

float RateFactor(const Cluster& cluster, const NodePlan& plan, RateGrowth growth, int solvers) {
  if (!plan.scales_rate) return 1;
  return RateScale::FactorOf(growth, std::max(1U, cluster.members()), cluster.staleness(), solvers);
}

void LogScaling(const NodeConfig& node_config, RateGrowth growth, int solvers,
                const RateScale& scale) {
  if (!node_config.plan.scales_rate) return;
  const auto nodes = static_cast<double>(node_config.topology.nodes.size());
  const double factor = RateScale::FreshFactorOf(growth, nodes, solvers);
  LOG(INFO) << "The " << nodes << " nodes of the cluster average their progress, at up to "
            << factor << " times the given learning rate: in full from iteration "
            << std::lround(scale.Warmup(static_cast<float>(factor)))
            << " on, less while nodes are absent or exchanges are stale; scaling: \"none\" in the "
            << "topology turns this off";
}

float PeersLookAhead(const Cluster& cluster, const NodePlan& plan) {
  if (cluster.alone()) return 0;
  // A rule that averages is the only one of its node.
  return MergeRuleRegistry::Get().MergesOwn(plan.segments[0].rule.name) ? kLookAheadOfMeans
                                                                        : kLookAheadOfSums;
}

Error MemoryError(const NodeConfig& node_config, const std::string& expected) {
  const TopologyMemory& memory = node_config.plan.memory;
  return Located(
      node_config.topology.source,
      FieldError(StrCat("node[", node_config.plan.node, "].memory"), "\"",
                 DeviceTypeName(memory.type), ":", memory.ordinal, "\" given, ", expected));
}

std::unique_ptr<NodeConfig> FindHostNodeConfig(const TrainOptions& options) {
  std::unique_ptr<NodeConfig> node_config = FindNodeConfig(options);
  if (node_config && !node_config->plan.memory.on_host()) {
    throw MemoryError(*node_config,
                      "but the weights of this program are in host memory: expected host");
  }
  return node_config;
}

std::vector<std::string> NodeNames(const Topology& topology) {
  std::vector<std::string> names;
  for (const TopologyNode& node : topology.nodes) names.push_back(node.name);
  return names;
}

std::vector<PeerLabel> PeerLabels(const NodeConfig& node_config) {
  std::vector<PeerLabel> labels;
  for (const TopologyNode& node : node_config.topology.nodes) labels.push_back({node.name, ""});
  for (const SegmentPlan& segment : node_config.plan.segments) {
    for (const NodeId node : node_config.topology.segments[segment.segment].nodes) {
      if (labels[node].segment.empty()) labels[node].segment = segment.name;
    }
  }
  return labels;
}

ClusterSession::ClusterSession(const NodeConfig& node_config, const ClusterReplica& replica,
                               const WeightReader& reader, CommandReader* commands)
    : node_config_(node_config),
      iterations_(*replica.iterations),
      errors_(*replica.sink),
      commands_(*commands),
      clock_(*replica.clock),
      cluster_(StartWhenUp(node_config, replica, commands)),
      failure_detector_(cluster_.get(), replica.clock),
      peers_(cluster_.get(), &failure_detector_),
      life_(
          &peers_, reader, PeerLabels(node_config), [commands] { return commands->stopped_ns(); },
          replica.clock) {
  if (node_config.rendezvous) FollowRendezvous();
  FollowNames();
}

ClusterSession::~ClusterSession() {
  names_.reset();
  if (node_config_.rendezvous) node_config_.rendezvous->Detach();
}

// The registry's thread changes the cluster, whose functions are thread-safe.
void ClusterSession::FollowRendezvous() {
  RendezvousPeers peers;
  peers.set_address = [this](NodeId node, const std::string& address) {
    const std::optional<NetworkHost> host = ParseHost(address);
    if (!host) return;
    for (size_t i = 0; i < cluster_->segments().size(); ++i) {
      const size_t of_file = node_config_.plan.segments[i].segment;
      cluster_->SetPeerAddress(i, node,
                               HostAndPort(*host, node_config_.topology.segments[of_file].port));
    }
  };
  peers.allow_bootstrap = [this] { cluster_->AllowBootstrap(); };
  peers.begun = [this] { return cluster_->begun(); };
  peers.heard = [heard = HeardPeers(cluster_.get())]() mutable {
    std::vector<NodeId> nodes;
    for (const auto& [segment, node] : heard.Take()) nodes.push_back(node);
    return nodes;
  };
  peers.run_ended = [this] { run_ended_ = true; };
  peers.fail = [this](const std::string& line) {
    errors_.Report(std::make_exception_ptr(Error(line)));
  };
  node_config_.rendezvous->Attach(std::move(peers));
}

// Names of unresponsive nodes are looked up again: their machines may have other addresses now.
void ClusterSession::FollowNames() {
  std::vector<NamedPeer> named = NamedPeers(node_config_.topology, node_config_.plan);
  if (named.empty()) return;
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    try {
      return ResolveUdpAddress("", name).Text();
    } catch (const Error&) {
      return {};
    }
  };
  names_ = std::make_unique<Thread>(
      "names",
      [this, watch = NameWatch(std::move(named), lookup),
       peers = HeardPeers(cluster_.get())]() mutable {
        CommandReader pause(nullptr, &clock_);
        for (int64_t next_ns = 0;; pause.Next(kStepMs * 10)) {
          InterruptionPoint();
          if (clock_.NowNs() < next_ns) continue;
          next_ns = clock_.NowNs() + kNameNs;
          const auto heard = peers.Take();
          const auto is_silent = [&](const NamedPeer& peer) {
            return heard.count({peer.segment, peer.node}) == 0;
          };
          for (const NamedPeer& peer : watch.Look(is_silent)) {
            cluster_->SetPeerAddress(peer.segment, peer.node, peer.address);
          }
        }
      },
      &errors_);
}

bool ClusterSession::Join() {
  const NodePlan& plan = node_config_.plan;
  LOG(INFO) << "Node " << plan.name << " (" << plan.node << " of "
            << node_config_.topology.nodes.size() << ") of cluster " << node_config_.topology.name
            << ": waiting for the weights of the run";
  while (!life_.PollJoin()) {
    errors_.RethrowIfFailed();
    cluster_->ThrowIfRefused();
    ThrowIfTooShort();
    const bool is_stopped = commands_.Next(20) == RunCommand::kStop;
    if (is_stopped || run_ended_) {
      LOG(INFO) << (is_stopped ? "Stopped before the weights were there."
                               : "The run has ended before this node had its weights.");
      life_.BeginLeave(LeaveReason::kEnd);
      WaitFor([this] { return life_.PollLeave(); });
      return false;
    }
  }
  if (cluster_->bootstrapped()) {
    LOG(INFO) << "The run begins with the weights of this node, at iteration "
              << iterations_.claimed();
  } else {
    LOG(INFO) << "Joined the run at iteration " << iterations_.claimed() << "; "
              << cluster_->members() << " nodes are in sync";
  }
  return true;
}

void ClusterSession::ThrowIfTooShort() {
  const std::optional<std::string> line = life_.FindTooShort();
  if (line) throw ScheduleTooShort(OneLine(*line));
}

void ClusterSession::PublishFailed(std::exception_ptr error, bool wait) {
  bool too_short = false;
  try {
    std::rethrow_exception(std::move(error));
  } catch (const ScheduleTooShort& found) {
    too_short = true;
    life_.PublishTooShort(found.what());
  } catch (const NonFiniteLoss& loss) {
    life_.PublishFailed(loss.what(), true);
  } catch (const std::exception& other) {
    life_.PublishFailed(other.what(), false);
  }
  const int64_t begin = clock_.NowNs();
  const auto waits = [&] {
    const int64_t waited = clock_.NowNs() - begin;
    if (!too_short || commands_.stopped_ns()) return waited < kPublishNs && !cluster_->all_acked();
    return waited < kTooShortNs && !life_.IsTooShortHeard();
  };
  while (wait && waits()) std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
}

void ClusterSession::LogFailures() {
  for (const std::string& line : life_.TakeFailures()) LOG(ERROR) << line;
}

bool ClusterSession::Leave(LeaveReason reason) {
  completed_ = reason == LeaveReason::kEnd;
  life_.BeginLeave(reason);
  WaitFor([this] { return life_.PollLeave(); });
  for (const ClusterSegment& segment : cluster_->segments()) {
    LOG(INFO) << "Segment " << segment.net->name() << ": " << SummaryOf(segment.net->metrics());
  }
  return life_.last();
}

void ClusterSession::Answer() {
  WaitFor([this] { return life_.PollAnswer(); });
  if (node_config_.rendezvous) node_config_.rendezvous->Leave(completed_);
}

// commands_.Next() receives stop commands; life_ reads them from CommandReader::stopped_ns().
void ClusterSession::WaitFor(const std::function<bool()>& done) {
  while (!done() && !errors_.failed()) commands_.Next(kStepMs);
}

}  // namespace millrace::inline train
