#include "train/run_counters.h"

#include <glog/logging.h>

#include <vector>

#include "base/error.h"

namespace millrace {
namespace {

using Kind = CounterEntry::Kind;

// Limit over all segments: a counter file has at most 65,536 entries.
constexpr size_t kMostPeers = 1024;

void Append(const std::string& group, const std::vector<Metric>& numbers,
            std::vector<CounterEntry>* entries) {
  for (const Metric& each : numbers) entries->push_back({group, each.name, each.kind});
}

}  // namespace

RunCounters::RunCounters(const std::string& title, const IterationClock* iterations, int64_t images,
                         const Cluster* cluster)
    : iterations_(*iterations), images_(images) {
  // In the order in which Update writes them.
  std::vector<CounterEntry> entries = {{"run", "iteration", Kind::kGauge},
                                       {"run", "iterations_here", Kind::kCount},
                                       {"run", "images_here", Kind::kCount},
                                       {"run", "loss", Kind::kGauge},
                                       {"run", "snapshot_failures", Kind::kCount}};
  if (cluster != nullptr) {
    for (const ClusterSegment& segment : cluster->segments()) Watch(*segment.net, &entries);
  }
  try {
    counter_file_ = std::make_unique<CounterFile>(title, entries);
  } catch (const Error& error) {
    LOG(WARNING) << "millrace top will not show this run: " << error.what();
  }
}

void RunCounters::Watch(const NetSegment& segment, std::vector<CounterEntry>* entries) {
  Watched watched{&segment, {}};
  Append("segment " + segment.name(), MetricsOf(segment), entries);
  for (const NodeId peer : segment.metrics().peers()) {
    if (peers_ == kMostPeers) break;
    ++peers_;
    watched.peers.push_back(peer);
    Append(StrCat("peer ", segment.NameOf(peer), " on ", segment.name()), MetricsOf(segment, peer),
           entries);
  }
  watched_.push_back(std::move(watched));
}

void RunCounters::Update(float loss, uint64_t snapshot_failures) {
  if (!counter_file_) return;
  next_ = 0;
  const auto own = static_cast<double>(iterations_.own());
  Put(static_cast<double>(iterations_.global()));
  Put(own);
  Put(own * static_cast<double>(images_));
  Put(loss);
  Put(static_cast<double>(snapshot_failures));
  for (const Watched& watched : watched_) {
    Put(MetricsOf(*watched.segment));
    for (const NodeId peer : watched.peers) Put(MetricsOf(*watched.segment, peer));
  }
}

void RunCounters::Put(const std::vector<Metric>& numbers) {
  for (const Metric& each : numbers) Put(each.value);
}

}  // namespace millrace
