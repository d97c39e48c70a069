#include "train/run_board.h"

#include <glog/logging.h>

#include <numeric>
#include <vector>

#include "base/error.h"

namespace millrace {
namespace {

using Kind = BoardEntry::Kind;

struct Named {
  const char* name;
  Kind kind;
};
// In the order in which they are written.
constexpr Named kRun[] = {{"iteration", Kind::kGauge},
                          {"iterations_here", Kind::kCount},
                          {"images_here", Kind::kCount},
                          {"loss", Kind::kGauge}};
constexpr Named kSegment[] = {{"members", Kind::kGauge},      {"in_sync", Kind::kGauge},
                              {"leads", Kind::kGauge},        {"frames_out", Kind::kCount},
                              {"frames_in", Kind::kCount},    {"wire_bytes_out", Kind::kCount},
                              {"bytes_in", Kind::kCount},     {"positions_taken", Kind::kCount},
                              {"diffs_merged", Kind::kCount}, {"resends", Kind::kCount},
                              {"takeovers", Kind::kCount},    {"dropped_exchange", Kind::kCount},
                              {"dropped_gate", Kind::kCount}, {"dropped_transport", Kind::kCount},
                              {"overruns", Kind::kCount},     {"busy", Kind::kCount},
                              {"passes", Kind::kCount},       {"idle_passes", Kind::kCount}};

template <typename Counts>
double Sum(const Counts& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
}

}  // namespace

RunBoard::RunBoard(const std::string& title, const IterationClock* iterations, int64_t images,
                   const Cluster* cluster)
    : iterations_(*iterations), images_(images), cluster_(cluster) {
  std::vector<BoardEntry> entries;
  for (const Named& each : kRun) entries.push_back({"run", each.name, each.kind});
  if (cluster_ != nullptr) {
    for (const ClusterSegment& segment : cluster_->segments()) {
      for (const Named& each : kSegment) {
        entries.push_back({"segment " + segment.net->name(), each.name, each.kind});
      }
    }
  }
  try {
    board_ = std::make_unique<Board>(title, entries);
  } catch (const Error& error) {
    LOG(WARNING) << "millrace top will not show this run: " << error.what();
  }
}

void RunBoard::Update(float loss) {
  if (!board_) return;
  next_ = 0;
  const auto own = static_cast<double>(iterations_.own());
  Put(static_cast<double>(iterations_.global()));
  Put(own);
  Put(own * static_cast<double>(images_));
  Put(loss);
  if (cluster_ == nullptr) return;
  for (const ClusterSegment& segment : cluster_->segments()) UpdateSegment(*segment.net);
}

void RunBoard::UpdateSegment(const HostNet& segment) {
  const SegmentState& state = segment.state();
  const SegmentMeters& meters = segment.meters();
  const TransportCounters& transport = segment.transport().counters();
  const ExchangeStats stats = meters.exchange();
  Put(state.members());
  Put(state.in_sync());
  Put(state.leads());
  Put(Sum(stats.sent));
  Put(Sum(stats.received));
  Put(static_cast<double>(meters.wire_bytes()));
  Put(static_cast<double>(stats.bytes_received));
  Put(static_cast<double>(stats.positions_taken));
  Put(static_cast<double>(stats.diffs_merged));
  Put(static_cast<double>(stats.resends));
  Put(static_cast<double>(stats.takeovers));
  Put(Sum(stats.drops));
  uint64_t gate = 0, dropped = 0;
  for (size_t i = 0; i < std::tuple_size_v<GateDrops>; ++i) {
    gate += meters.gate_drops(static_cast<GateDrop>(i));
  }
  for (size_t i = 0; i < kDropReasons; ++i) {
    dropped += transport.dropped(static_cast<DropReason>(i));
  }
  Put(static_cast<double>(gate));
  Put(static_cast<double>(dropped));
  Put(static_cast<double>(transport.dropped(DropReason::kOverrun)));
  Put(static_cast<double>(transport.busy()));
  Put(static_cast<double>(meters.passes()));
  Put(static_cast<double>(meters.idle_passes()));
}

}  // namespace millrace
