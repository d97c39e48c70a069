// What a segment between two nodes of this machine merges a second with its replicas in host
// memory, in a GPU's, and one in each: over a loopback hub, where only the segments take time,
// and over UDP. Two segment threads and two loads in one process.
//
//   build/bench/segment_bench --weights=1048576
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <cstdio>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "bench/network/segment_nodes.h"
#include "millrace/transport_registry.h"
#include "test/support/cuda_devices.h"

DEFINE_int64(weights, int64_t{4} << 20, "of each node");
DEFINE_double(seconds, 2, "of each measurement, behind a quarter of that to warm up");

namespace millrace {
namespace {

using bench::SegmentCounts;
using bench::SegmentNodes;

void Pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Topology Between(const std::string& a, const std::string& b, const std::string& transport, int mtu,
                 const std::string& codec) {
  const bool in_process =
      TransportRegistry::Get().Find(transport)->reach == TransportReach::kProcess;
  // Hubs of threads differ by their names.
  static int hubs = 0;
  const std::string hub =
      StrCat("option { key: 'hub' value: '", ++hubs, "' } option { key: 'nodes' value: '2' }",
             " option { key: 'queue_frames' value: '1024' }");
  const std::string text =
      StrCat("name: 'bench'\nnode { name: 'a' address: '127.0.0.1' memory: '", a,
             "' }\nnode { name: 'b' address: '127.0.0.2' memory: '", b,
             "' }\nsegment { name: 's' transport: '", transport, "' mtu: ", mtu, " codec: '", codec,
             "' ", in_process ? hub : "", " }");
  return ParseTopology(text, "bench", TransportRegistry::Get().Names());
}

void Measure(const std::string& a, const std::string& b, const std::string& transport, int mtu,
             const std::string& codec) {
  SegmentNodes nodes(Between(a, b, transport, mtu, codec), FLAGS_weights);
  const SteadyClock clock;
  nodes.Load(true);
  Pause(FLAGS_seconds / 4);
  const SegmentCounts before = nodes.Read();
  const double begin = clock.NowSeconds();
  Pause(FLAGS_seconds);
  const SegmentCounts after = nodes.Read();
  const double seconds = clock.NowSeconds() - begin;
  nodes.Load(false);
  std::printf("%-8s %-8s %-9s %6d %-9s %8.1f %10.0f %6.2f %8lu\n", a.c_str(), b.c_str(),
              transport.c_str(), mtu, codec.c_str(),
              (after.merged_bytes - before.merged_bytes) * 1e-6 / seconds,
              static_cast<double>(after.moved - before.moved) / seconds,
              (after.thread_cpu_seconds - before.thread_cpu_seconds) / seconds,
              static_cast<unsigned long>(after.resends - before.resends));
  std::fflush(stdout);
}

void MeasureAll(const std::string& a, const std::string& b) {
  for (const char* codec : {"float32", "int8"}) {
    for (const char* transport : {"loopback", "udp"}) {
      for (const int mtu : {1500, 9000}) Measure(a, b, transport, mtu, codec);
    }
  }
}

int Main() {
  std::printf("%lld weights; merged: positions and diffs, both ways, 4 bytes a weight\n",
              static_cast<long long>(FLAGS_weights));
  std::printf("%-8s %-8s %-9s %6s %-9s %8s %10s %6s %8s\n", "a", "b", "transport", "mtu", "codec",
              "MB/s", "frames/s", "cpus", "resends");
  MeasureAll("host", "host");
  if (const std::string why = test::WhyNoCudaDevice(0); !why.empty()) {
    std::printf("%s\n", why.c_str());
    return 0;
  }
  MeasureAll("cuda:0", "cuda:0");
  MeasureAll("cuda:0", "host");
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_minloglevel = google::GLOG_WARNING;
  FLAGS_logtostderr = true;
  try {
    return millrace::Main();
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "segment_bench: %s\n", error.what());
    return 1;
  }
}
