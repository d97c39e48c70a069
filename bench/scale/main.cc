// What `make scale` runs: clusters of 2 to 1,024 nodes on a simulated fabric (test/sim/fabric),
// by copies, by multicast, and as a tree of segments. Prints a line for each as it is done;
// writes all numbers, and the figure of docs/scale.md.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/files/file.h"
#include "bench/measure.h"
#include "bench/scale/figure.h"
#include "bench/scale/row.h"
#include "exchange/protocol/membership.h"
#include "metrics/figure.h"
#include "test/sim/fabric/bound.h"
#include "test/sim/fabric/cluster.h"

DEFINE_string(wire, "roce", "roce, infiniband or udp");
DEFINE_double(gbit, 25, "rate of every port, each way, Gbit/s");
DEFINE_int32(chunks, 256, "chunks of the weights, each as long as a frame holds");
DEFINE_int32(fan_out, 32, "nodes of a segment of the tree");
DEFINE_int32(least, 2, "nodes of the smallest cluster");
DEFINE_int32(most, 1024, "nodes of the largest cluster; sizes are doubled");
DEFINE_int32(max_flat, 128,
             "nodes of the largest single segment that is simulated; what is "
             "larger is computed (test/sim/fabric/bound.h)");
DEFINE_int32(max_tree, 1024, "nodes of the largest tree that is simulated");
DEFINE_int32(under_way, -1,
             "frames under way to a node in a segment, which its windows share; -1: twice "
             "the chunks; 0: what verbs allows by default");
DEFINE_string(kinds, "copies multicast tree", "which of these are simulated");
DEFINE_int32(max_spread, 128, "nodes of the largest cluster whose spread is measured");
DEFINE_double(warm, 6, "time at work before a reading, in sweeps of the bound");
DEFINE_double(read, 10, "time of a reading, likewise");
DEFINE_string(csv, "", "the file to write the numbers to");
DEFINE_string(from, "",
              "simulate nothing that stands in this file of numbers, made with the "
              "same flags");
DEFINE_string(
    svg, "",
    "the file to draw the figure to, with gnuplot: PNG if its name ends in .png, otherwise "
    "SVG");
DEFINE_string(draw, "", "draw the figure from these numbers, simulate nothing");

namespace millrace::scale {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kJoinWithin = 60'000 * kMs, kSettleWithin = 20'000 * kMs;
constexpr int kMarks = 16;
sim::FabricClusterOptions OptionsOf(const sim::Shape& shape, bool multicast) {
  sim::FabricClusterOptions options;
  options.shape = shape;
  options.port.wire = sim::WireNamed(FLAGS_wire);
  options.port.multicast = multicast;
  options.port.rates = {FLAGS_gbit * 1e9 / 8, FLAGS_gbit * 1e9 / 8};
  options.chunks = FLAGS_chunks;
  // The weights here are few. With as many as a large net has, the default windows hold a part
  // of a sweep; here they would hold a dozen, and nodes would be sent what is outdated.
  options.port.under_way =
      static_cast<uint32_t>(FLAGS_under_way < 0 ? 2 * FLAGS_chunks : FLAGS_under_way);
  return options;
}

void Shape(const sim::FabricClusterOptions& options, Row* row) {
  row->nodes = options.shape.nodes;
  row->segments = static_cast<int>(options.shape.segments.size());
  row->members = static_cast<int>(options.shape.max_members());
  row->heartbeat = static_cast<int>(kFrameHeaderBytes + 8 * AckWords(options.shape.nodes) +
                                    Membership::MaxPayloadBytes(row->members));
  row->fits = row->heartbeat <= options.port.wire.max_frame_bytes;
}

void Read(const sim::Reading& reading, Row* row) {
  constexpr double kMb = 1e-6;
  row->sweeps = reading.min_sweeps;
  row->merges = reading.merges;
  row->sent = reading.sent_bytes / reading.sweeps * kMb;
  row->received = reading.received_bytes / reading.sweeps * kMb;
  row->max_sent = reading.max_sent_bytes / reading.min_sweeps * kMb;
  row->max_received = reading.max_received_bytes / reading.min_sweeps * kMb;
  row->queue = static_cast<double>(reading.deepest_queue_bytes) * kMb;
}

Row Simulate(const std::string& kind, const sim::FabricClusterOptions& options) {
  const double begin = bench::Seconds();
  Row row;
  row.kind = kind;
  Shape(options, &row);
  sim::FabricCluster cluster(options);
  cluster.Join(kJoinWithin);
  const sim::PortRates& rates = options.port.rates;
  row.bound = sim::MaxSweeps(sim::CutOf(options), options.shape, 0, rates);
  row.bound_answered = sim::MaxSweeps(sim::CutOf(options), options.shape, 1, rates);
  cluster.Work(true);
  cluster.Run(static_cast<int64_t>(FLAGS_warm / row.bound * 1e9));
  Read(cluster.Measure(static_cast<int64_t>(FLAGS_read / row.bound * 1e9)), &row);
  if (row.nodes <= FLAGS_max_spread) {
    const sim::Spread spread = cluster.MeasureSpread(kMarks, 1, kSettleWithin);
    row.spread_mean = spread.mean_ns * 1e-6;
    row.spread_last = spread.last_ns * 1e-6;
  }
  cluster.Work(false);
  row.replicas_equal = cluster.Settle(kSettleWithin) && cluster.Conserved();
  row.cpu = bench::Seconds() - begin;
  return row;
}

// A cluster of more nodes than are simulated: by the bytes that have to pass its busiest port,
// as far from them as the largest that was simulated, `like` of the options `simulated`, was.
Row Compute(const sim::FabricClusterOptions& options, const sim::FabricClusterOptions& simulated,
            const Row& like) {
  Row row;
  row.kind = like.kind;
  row.computed = 1;
  Shape(options, &row);
  const sim::PortRates& rates = options.port.rates;
  const auto most = [&](const sim::FabricClusterOptions& of, double answered) {
    return sim::MaxSweeps(sim::CutOf(of), of.shape, answered, rates);
  };
  const double answered = std::min(like.merges / like.sweeps, 1.0);
  row.bound = most(options, 0);
  row.bound_answered = most(options, 1);
  row.sweeps = most(options, answered) * like.sweeps / most(simulated, answered);
  row.merges = answered * row.sweeps;
  const auto cost = [&](const sim::FabricClusterOptions& of) {
    return sim::CostOfBusiest(sim::CutOf(of), of.shape, answered);
  };
  const sim::SweepCost here = cost(options), there = cost(simulated);
  row.max_sent = here.sent / there.sent * like.max_sent;
  row.max_received = here.received / there.received * like.max_received;
  return row;
}

void Print(const Row& row) {
  std::printf(
      "%-22s %5d nodes: %7.1f sweeps/s (at most %7.1f; all answered: %7.1f), %7.1f merges/s; "
      "busiest MB a sweep: sent %6.2f, received %6.2f; spread %7.2f ms; %s; %.0f s\n",
      row.kind.c_str(), row.nodes, row.sweeps, row.bound, row.bound_answered, row.merges,
      row.max_sent, row.max_received, row.spread_last,
      row.computed         ? "computed"
      : row.replicas_equal ? "replicas equal"
                           : "REPLICAS DIFFER",
      row.cpu);
  std::fflush(stdout);
}

void Write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

std::string Caption(int64_t chunk_floats) {
  const double bytes = 4.0 * FLAGS_chunks * static_cast<double>(chunk_floats);
  char text[200];
  std::snprintf(text, sizeof(text),
                "%s, %g Gbit/s each way on each port; weights of %.1f MB in %d chunks, float32 "
                "diffs, solvers that always have progress. docs/scale.md says how.",
                FLAGS_wire.c_str(), FLAGS_gbit, bytes * 1e-6, FLAGS_chunks);
  return text;
}

bool Wanted(const char* kind) { return FLAGS_kinds.find(kind) != std::string::npos; }

std::vector<Row> SimulateAll() {
  const bool multicasts = sim::WireNamed(FLAGS_wire).multicasts;
  const std::string tree =
      StrCat("tree of ", FLAGS_fan_out, multicasts ? ", multicast" : ", copies");
  std::vector<Row> rows, given;
  if (!FLAGS_from.empty()) given = FromCsv(ReadFile(FLAGS_from), FLAGS_from);
  // `shape` of so many nodes.
  const auto add = [&](const std::string& kind, auto shape, uint16_t nodes, bool multicast,
                       int most) {
    const auto like = std::find_if(rows.rbegin(), rows.rend(), [&](const Row& row) {
      return row.kind == kind && !row.computed;
    });
    const auto known = std::find_if(given.begin(), given.end(), [&](const Row& row) {
      return row.kind == kind && row.nodes == nodes && !row.computed;
    });
    const sim::FabricClusterOptions options = OptionsOf(shape(nodes), multicast);
    if (nodes > most && like != rows.rend()) {
      const auto before = static_cast<uint16_t>(like->nodes);
      rows.push_back(Compute(options, OptionsOf(shape(before), multicast), *like));
    } else if (known != given.end()) {
      rows.push_back(*known);
    } else {
      rows.push_back(Simulate(kind, options));
    }
    Print(rows.back());
    Write(FLAGS_csv, ToCsv(rows));
  };
  const auto fan_out = static_cast<uint16_t>(FLAGS_fan_out);
  const auto grow = [&](uint16_t nodes) { return sim::TreeShape(nodes, fan_out); };
  for (int n = FLAGS_least; n <= FLAGS_most; n *= 2) {
    const auto nodes = static_cast<uint16_t>(n);
    if (Wanted("copies")) add("flat, copies", sim::FlatShape, nodes, false, FLAGS_max_flat);
    if (Wanted("multicast") && multicasts) {
      add("flat, multicast", sim::FlatShape, nodes, true, FLAGS_max_flat);
    }
    // Up to there it is flat.
    if (Wanted("tree") && n > FLAGS_fan_out) add(tree, grow, nodes, multicasts, FLAGS_max_tree);
  }
  return rows;
}

int Run() {
  if (FLAGS_least < 2 || FLAGS_most > kMaxNodes || FLAGS_fan_out < 2) {
    throw Error("expected --least and --fan_out of 2 at least, --most of ", kMaxNodes, " at most");
  }
  const std::vector<Row> rows =
      FLAGS_draw.empty() ? SimulateAll() : FromCsv(ReadFile(FLAGS_draw), FLAGS_draw);
  const sim::Wire wire = sim::WireNamed(FLAGS_wire);
  const auto head = static_cast<int64_t>(kFrameHeaderBytes + 8 * AckWords(1));
  if (!FLAGS_svg.empty()) {
    const Figure figure = ScaleFigure(rows, Caption((wire.max_frame_bytes - head) / 4));
    RunGnuplot(FigureScript(figure, FLAGS_svg), FLAGS_svg);
  }
  const bool equal = std::all_of(rows.begin(), rows.end(),
                                 [](const Row& row) { return row.computed || row.replicas_equal; });
  if (!equal) throw Error("replicas differed in the end, or did not come to rest");
  return 0;
}

}  // namespace
}  // namespace millrace::scale

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  try {
    return millrace::scale::Run();
  } catch (const millrace::Error& error) {
    std::cerr << "scale: " << error.what() << "\n";
    return 1;
  }
}
