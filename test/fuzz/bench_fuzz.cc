// Messages that nodes publish during a cluster benchmark: statuses, report pages, and the results
// computed from the reports.
#include <memory>

#include "linktest/bench_phase.h"
#include "linktest/result.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr size_t kMaxPerStatus = 1024;

const Topology& Pair() {
  static const Topology topology = ParseTopology(
      "name: 'pair' node { name: 'a' address: '10.0.0.1' } node { name: 'b' address: '10.0.0.2' }\n"
      "segment { name: 'lan' transport: 'udp' }\n",
      "f", {"udp"});
  return topology;
}

BenchReport Report() {
  BenchReport report;
  report.set_seconds(5);
  report.set_process_cpu_seconds(2);
  report.set_load_cpu_seconds(0.25);
  BenchEnd* end = report.add_end();
  end->set_segment(0);
  end->set_chunk_weights(348);
  end->set_wire_bytes_out(1'000'000);
  end->set_bytes_in(2'000'000);
  end->set_sweeps(12);
  end->set_thread_cpu_seconds(1);
  BenchDrop* drop = end->add_drop();
  drop->set_reason("old");
  drop->set_frames(3);
  BenchPeer* peer = end->add_peer();
  peer->set_node(0);
  peer->set_frames_sent(1000);
  peer->set_all_frames_sent(2000);
  peer->set_all_frames_received(1999);
  peer->set_round_trip_ms_p50(1.5);
  peer->set_round_trip_ms_p99(2.5);
  return report;
}

BenchStatus StatusIn(BenchStatus::Phase phase) {
  BenchStatus status;
  status.set_version(1);
  status.set_phase(phase);
  status.set_participants("\x03");
  status.set_seconds(1);
  status.set_warm_up_seconds(1);
  return status;
}

std::string WithLength(const BenchStatus& status) {
  const std::string bytes = status.SerializeAsString();
  return std::string{static_cast<char>(bytes.size()), static_cast<char>(bytes.size() >> 8)} + bytes;
}

}  // namespace

std::vector<std::string> Corpus() {
  std::string whole;
  for (int phase = BenchStatus::WAITING; phase <= BenchStatus::STOPPED; ++phase) {
    BenchStatus status = StatusIn(static_cast<BenchStatus::Phase>(phase));
    if (phase >= BenchStatus::REPORTED) ReportWriter(1, Report()).Write(nullptr, &status);
    whole += WithLength(status);
  }
  BenchStatus reported = StatusIn(BenchStatus::REPORTED);
  ReportWriter(1, Report()).Write(nullptr, &reported);
  BenchStatus first = reported, second = reported;
  first.set_pages(2);
  first.set_page_bytes(reported.page_bytes().substr(0, 20));
  second.set_pages(2);
  second.set_page(1);
  second.set_page_bytes(reported.page_bytes().substr(20));
  return {"", whole, WithLength(reported), WithLength(first) + WithLength(second)};
}

// Node a receives the statuses in `input`, in order, from node b.
bool Target(const std::string& input) {
  BenchPhasesConfig config;
  config.cluster = "pair";
  config.names = {"a", "b"};
  double now = 0;
  auto phases = std::make_unique<BenchPhases>(config, now);
  PeerTable peers(2, 0, 10);
  ReportReader reader;
  std::string_view rest = input;
  while (rest.size() >= 2) {
    const size_t size = static_cast<uint8_t>(rest[0]) | static_cast<uint8_t>(rest[1]) << 8;
    rest.remove_prefix(2);
    const std::string bytes(rest.substr(0, std::min(size, kMaxPerStatus)));
    rest.remove_prefix(std::min(rest.size(), size));
    peers.Take(1, std::as_bytes(std::span(bytes)), now);
    const BenchPhases::Others others = peers.present(now);
    try {
      while (phases->Step(now, others, reader.Read(others, {0, 1}, 0))) continue;
    } catch (const std::exception&) {
      phases = std::make_unique<BenchPhases>(config, now);
    }
    BenchStatus ours = phases->status();
    reader.Ask(&ours);
    if (!BenchPhases::Accepts(ours, 2) || ours.ByteSizeLong() > kMaxPerStatus) return false;
    now += 1;
  }
  Measurement measurement;
  measurement.weights = 1000;
  measurement.participants = {0, 1};
  for (const auto& [node, report] : reader.reports()) {
    if (FitsTopology(report, node, Pair())) measurement.reports[node] = report;
  }
  const BenchResult result = ResultOf(Pair(), measurement);
  const std::string json = ResultJson(result), table = BenchTable(result);
  return json.find('\n') == json.size() - 1 && table.find('\033') == std::string::npos;
}

}  // namespace millrace::fuzz
