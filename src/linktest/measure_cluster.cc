#include "linktest/measure_cluster.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/start.h"
#include "cluster/sweep_estimate.h"
#include "linktest/bench_phase.h"
#include "linktest/load_generator.h"
#include "linktest/reading.h"
#include "linktest/result.h"
#include "topology/choose_node.h"
#include "weights/param_layout.h"
#include "weights/weight_buffer.h"

namespace millrace::inline linktest {
namespace {

constexpr int kStepMs = 10;
constexpr double kBeatSeconds = 1, kPeerTimeoutSeconds = 10;
// Maximum waits of a leaving node: for acknowledgement of its last state, then for its peers to let
// it leave; after an error, for each of the two.
constexpr int kAckMs = 2000, kLeaveMs = 1500, kStopAckMs = 300;

// No net has a parameter of this name, so a node that trains refuses a node that measures.
ParamLayout LayoutOf(int64_t weights) {
  ParamLayout layout;
  layout.Add("millrace bench", {weights});
  return layout;
}

BenchPhasesConfig PhasesConfigOf(const MeasureOptions& options, const Topology& topology,
                                 NodeId node) {
  BenchPhasesConfig config;
  config.cluster = topology.name;
  config.node = node;
  for (const TopologyNode& each : topology.nodes) config.names.push_back(each.name);
  config.wait_seconds = options.wait_seconds;
  config.warm_up_seconds = options.warm_up_seconds;
  config.seconds = options.seconds;
  return config;
}

// The weights of the measurement, initially zero, in the memory that the topology names, and their
// clock.
class MeasuredWeights {
 public:
  MeasuredWeights(const ReplicaDevice& replica_device, int64_t count) : size_(count) {
    if (replica_device.device->memory().on_host()) {
      on_host_ = WeightBuffer::CreatePrivate(LayoutOf(count));
      return;
    }
    on_device_ =
        Buffer(replica_device.device->memory(), sizeof(float) * static_cast<size_t>(count));
    replica_device.device->memory().Fill(on_device_.get(), 0, on_device_.bytes());
  }
  float* data() const { return on_host_ ? on_host_->data() : on_device_.get<float>(); }
  int64_t size() const { return size_; }
  IterationClock& clock() { return on_host_ ? on_host_->clock() : clock_; }

 private:
  const int64_t size_;
  std::unique_ptr<WeightBuffer> on_host_;
  Buffer on_device_;
  IterationClock clock_;
};

class MeasureRun {
 public:
  MeasureRun(const MeasureOptions& options, const std::function<bool(int ms)>& stopped)
      : options_(options),
        stopped_(stopped),
        topology_(LoadTopology(options.topology, TransportsForTopologies())),
        node_(ChooseNode(topology_, options.node, getenv)),
        plan_(PlanFor(topology_, node_)),
        replica_device_(DeviceReplica(plan_.memory.type, plan_.memory.ordinal)),
        weights_(replica_device_, options.weights),
        phases_(PhasesConfigOf(options, topology_, node_), clock_.NowSeconds()),
        peers_(topology_.nodes.size(), node_, kPeerTimeoutSeconds),
        began_(clock_.NowSeconds()) {
    for (const std::string& notice : plan_.notices) LOG(INFO) << notice;
    for (const std::string& warning : plan_.warnings) LOG(WARNING) << warning;
    cluster_ = StartCluster(topology_, plan_,
                            {.weights = weights_.data(),
                             .size = weights_.size(),
                             .layout_digest = LayoutOf(options.weights).Digest(),
                             .start = 0,
                             .iterations = &weights_.clock(),
                             .clock = &clock_,
                             .sink = &errors_,
                             .replica_device = replica_device_});
    for (size_t i = 0; i < plan_.segments.size(); ++i) {
      const SegmentPlan& segment = plan_.segments[i];
      facts_.push_back({static_cast<uint32_t>(segment.segment),
                        static_cast<uint32_t>(cluster_->segments()[i].net->chunk_floats()),
                        LinkMegabits(segment)});
    }
    load_ = std::make_unique<LoadGenerator>(
        LoadStepOn(replica_device_, weights_.data(), weights_.size()), &weights_.clock(), &errors_);
    LOG(INFO) << "Node " << plan_.name << " (" << node_ << " of " << topology_.nodes.size()
              << ") of cluster " << topology_.name << " measures with " << weights_.size()
              << " weights in " << (plan_.memory.on_host() ? "" : "the memory of ")
              << replica_device_.device->memory().name();
  }

  std::optional<BenchResult> Run() {
    try {
      while (phases_.phase() != BenchStatus::DONE) {
        if (stopped_(kStepMs)) throw Error("bench: stopped by a signal before it was done");
        errors_.RethrowIfFailed();
        ThrowIfRefused();
        Hear();
        Follow();
        Publish();
      }
    } catch (...) {
      GiveUp();
      throw;
    }
    Leave();
    return std::move(result_);
  }

 private:
  double Now() const { return clock_.NowSeconds(); }

  void ThrowIfRefused() const {
    try {
      cluster_->ThrowIfRefused();
    } catch (const Error& error) {
      throw Error("bench: ", error.what(),
                  "; all nodes have to measure with the same files and weights, and a cluster "
                  "that trains can not be measured");
    }
  }

  void Hear() {
    for (const GossipMessage& gossip : cluster_->Read(GossipKey::kReport)) {
      peers_.Take(gossip.node, gossip.bytes, Now());
    }
    others_ = peers_.present(Now());
  }

  // Advances by as many phases as possible.
  void Follow() {
    if (!cluster_->begun()) {
      const double waited = Now() - began_;
      if (waited >= options_.wait_seconds) ThrowAlone();
      return;
    }
    LogWhoIsMissing();
    for (bool more = true; more;) {
      const MetricsSnapshot reading = Read();
      const bool quiescent = rest_.IsQuiescent(reading.moved(), Now());
      const bool collects = phases_.phase() == BenchStatus::REPORTED && phases_.is_leader();
      const bool ready = collects ? pages_.Read(others_, phases_.participants(), node_) : quiescent;
      const bool measured = phases_.measures();
      more = phases_.Step(Now(), others_, ready);
      if (more) Enter(reading);
      if (phases_.measures() && !measured) begin_ = reading;
    }
  }

  // Performs the action of the phase just entered.
  void Enter(const MetricsSnapshot& reading) {
    switch (phases_.phase()) {
      case BenchStatus::READY:
        before_ = reading;
        LOG(INFO) << "Measuring with " << phases_.participants().size()
                  << " nodes: " << phases_.seconds() << " s after " << phases_.warm_up_seconds()
                  << " s of warm-up";
        break;
      case BenchStatus::LOADED:
        load_->Switch(true);
        break;
      case BenchStatus::MEASURED:
        end_ = Read();
        load_->Switch(false);
        break;
      case BenchStatus::REPORTED:
        report_ = ReportOf(facts_, before_, begin_, end_, reading);
        writer_ = std::make_unique<ReportWriter>(node_, report_);
        break;
      case BenchStatus::DONE:
        if (phases_.is_leader()) Collect();
        break;
      default:
        break;
    }
  }

  MetricsSnapshot Read() const {
    MetricsSnapshot reading = ReadCounters(*cluster_);
    reading.at_ns = clock_.NowNs();
    reading.load_cpu_ns = load_->cpu_ns();
    return reading;
  }

  void Collect() {
    Measurement measurement;
    measurement.weights = weights_.size();
    measurement.warm_up_seconds = phases_.warm_up_seconds();
    measurement.seconds = phases_.seconds();
    measurement.participants = phases_.participants();
    for (NodeId node = 0; node < topology_.nodes.size(); ++node) {
      const auto& nodes = measurement.participants;
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
        measurement.missing.push_back(topology_.nodes[node].name);
      }
    }
    measurement.reports = pages_.reports();
    measurement.reports[node_] = report_;
    std::erase_if(measurement.reports, [&](const auto& report) {
      return !FitsTopology(report.second, report.first, topology_);
    });
    result_ = ResultOf(topology_, measurement);
  }

  void Publish() {
    if (!cluster_->begun()) return;
    BenchStatus status = phases_.status();
    if (phases_.is_leader()) {
      pages_.Ask(&status);
    } else if (writer_ != nullptr) {
      const auto leader = others_.find(phases_.leader());
      writer_->Write(leader == others_.end() ? nullptr : &leader->second, &status);
    }
    Publish(std::move(status));
  }
  void Publish(BenchStatus status) {
    status.set_beat(static_cast<uint64_t>((Now() - began_) / kBeatSeconds));
    const std::string bytes = status.SerializeAsString();
    if (bytes == published_) return;
    cluster_->Publish(GossipKey::kReport, std::as_bytes(std::span(bytes)));
    published_ = bytes;
  }

  void LogWhoIsMissing() {
    if (phases_.phase() != BenchStatus::WAITING) return;
    std::vector<std::string> missing = phases_.AbsentNodes(others_);
    if (missing == missing_) return;
    missing_ = std::move(missing);
    if (missing_.empty()) {
      LOG(INFO) << "All nodes are there";
    } else {
      LOG(INFO) << "Waiting for " << AndList(missing_);
    }
  }

  [[noreturn]] void ThrowAlone() const {
    throw Error("bench: cluster ", topology_.name, " was not there within ", options_.wait_seconds,
                " s: expected ", AndList(phases_.AbsentNodes(others_)));
  }

  // Waits until `done` returns true, `ms` have passed, or a signal arrives.
  template <typename Done>
  void WaitFor(int ms, Done done) {
    const double end = Now() + ms * 1e-3;
    while (!done() && Now() < end && !stopped_(5)) continue;
  }

  void Leave() {
    LOG(INFO) << (result_ ? "The result is there"
                          : "Reported to node " + topology_.nodes[phases_.leader()].name);
    // A node leaves only after the others have acknowledged that it is done. Gateway nodes leave
    // last.
    WaitFor(kAckMs, [this] { return cluster_->all_acked() && !cluster_->has_dependents(); });
    cluster_->Leave();
    WaitFor(kLeaveMs, [this] { return cluster_->left() || cluster_->alone(); });
  }

  // Publishes the stop, so that the others need not wait for a timeout.
  void GiveUp() {
    load_->Switch(false);
    BenchStatus status = phases_.status();
    status.set_phase(BenchStatus::STOPPED);
    Publish(std::move(status));
    WaitFor(kStopAckMs, [this] { return cluster_->all_acked(); });
    cluster_->Leave();
    WaitFor(kStopAckMs, [this] { return cluster_->left() || cluster_->alone(); });
  }

  const MeasureOptions options_;
  const std::function<bool(int ms)> stopped_;
  SteadyClock clock_;
  const Topology topology_;
  const NodeId node_;
  const NodePlan plan_;
  ErrorSink errors_;
  const ReplicaDevice replica_device_;
  MeasuredWeights weights_;
  BenchPhases phases_;
  PeerTable peers_;
  BenchPhases::Others others_;
  const double began_;
  QuiescenceDetector rest_;
  std::vector<EndFacts> facts_;
  MetricsSnapshot before_, begin_, end_;
  BenchReport report_;
  std::unique_ptr<ReportWriter> writer_;
  ReportReader pages_;
  std::optional<BenchResult> result_;
  std::string published_;
  std::vector<std::string> missing_;
  std::unique_ptr<LoadGenerator> load_;
  std::unique_ptr<Cluster> cluster_;  // declared last: its threads use the members above
};

}  // namespace

std::optional<BenchResult> MeasureCluster(const MeasureOptions& options,
                                          const std::function<bool(int ms)>& stopped) {
  return MeasureRun(options, stopped).Run();
}

}  // namespace millrace::inline linktest
