// What RDMA devices carry between nodes of one process, a thread each: bytes received a
// second at all of them together, in MB (10^6), by the verbs transport or by bare libibverbs
// and librdmacm; or weights that a segment merged. The devices are those of
// test/rdma_vm/fabric, one a node. Prints an object in JSON: megabytes_per_second, and
// cpu_seconds_per_gigabyte, user's and kernel's, of this process alone: what Soft-RoCE does in
// interrupts belongs to nobody.
//
//   build/bench/verbs_bench --by=bare --nodes=3 --senders=1 --pattern=all --seconds=1
//   build/bench/verbs_bench --by=segment --topology=FILE --seconds=1
//
// For a segment it also prints its costs between two moments at rest: "at rest" before the
// first, the object after the second. At both it goes on when a line comes in.
//
// bench/rdma runs it in a guest that has these devices.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/network/segment_nodes.h"
#include "bench/verbs_bench/pattern.h"
#include "bench/verbs_bench/raw_verbs.h"
#include "transport/verbs/transport.h"

DEFINE_string(by, "transport", "transport, bare or segment");
DEFINE_string(topology, "", "of the segment, which joins all nodes");
DEFINE_int32(floats, 1 << 20, "weights of the segment");
DEFINE_int32(nodes, 2, "each has a device");
DEFINE_int32(senders, 2, "the first so many nodes send; all receive");
DEFINE_string(pattern, "each",
              "of a sender's datagrams, in turn: to each other node; to all by "
              "multicast; mix: one to all, then one to each");
DEFINE_double(seconds, 1, "how long is measured");

namespace millrace::bench {
namespace {

constexpr double kTimeoutSeconds = 30;

// The nodes of either kind.
class Nodes {
 public:
  virtual ~Nodes() = default;
  // Sends by `pattern`, if there is one, and receives until `stop`.
  virtual void Run(int node, const Pattern* pattern, const std::atomic<bool>& stop) = 0;
  virtual void Wake() {}
  virtual uint64_t bytes_received() const = 0;
};

class BareNodes : public Nodes {
 public:
  BareNodes() {
    for (int node = 0; node < FLAGS_nodes; ++node) {
      ends_.push_back(std::make_unique<RawVerbs>(node, FLAGS_nodes));
    }
    for (const auto& end : ends_) end->Connect(ends_);
  }
  void Run(int node, const Pattern* pattern, const std::atomic<bool>& stop) override {
    ends_[node]->Run(pattern, stop);
  }
  uint64_t bytes_received() const override {
    return std::accumulate(
        ends_.begin(), ends_.end(), uint64_t{0},
        [](uint64_t sum, const auto& end) { return sum + end->bytes_received(); });
  }

 private:
  std::vector<std::unique_ptr<RawVerbs>> ends_;
};

class TransportNodes : public Nodes {
 public:
  TransportNodes() {
    constexpr int kPort = 7950;
    for (int node = 0; node < FLAGS_nodes; ++node) {
      VerbsOptions options;
      options.node = static_cast<NodeId>(node);
      options.address = AddressOf(node, kPort + node);
      for (int peer = 0; peer < FLAGS_nodes; ++peer) {
        if (peer != node) options.peers[static_cast<NodeId>(peer)] = AddressOf(peer, kPort + peer);
      }
      options.multicast = VerbsMulticast::kOn;
      ends_.push_back(ConnectVerbs(options));
    }
  }
  void Run(int node, const Pattern* pattern, const std::atomic<bool>& stop) override {
    constexpr size_t kHeader = 64, kBatch = 64;
    Transport* const end = ends_[node].get();
    const std::span<const std::byte> all = std::span(memory_).first(end->max_frame_bytes());
    end->RegisterMemory(all);
    std::vector<OutFrame> batch;
    // Whole turns, so that each batch begins where the pattern does.
    while (pattern && batch.size() + pattern->size() <= kBatch) {
      for (const NodeId to : *pattern) {
        batch.push_back({to, all.first(kHeader), all.subspan(kHeader)});
      }
    }
    std::vector<InFrame> frames(kBatch);
    size_t next = 0;
    while (!stop) {
      bool busy = true;
      if (pattern) {
        const SendResult result = end->Send(std::span(batch).subspan(next));
        next = (next + result.accepted) % batch.size();
        busy = result.status == SendStatus::kBusy;
        end->Reclaim();
      }
      const size_t received = end->Receive(frames);
      end->Release();
      const WaitFor what = pattern ? WaitFor::kReceiveOrSend : WaitFor::kReceive;
      if (busy && received == 0) end->Wait(INT64_MAX, what);
    }
  }
  void Wake() override {
    for (const auto& end : ends_) end->Wake();
  }
  uint64_t bytes_received() const override {
    return std::accumulate(
        ends_.begin(), ends_.end(), uint64_t{0},
        [](uint64_t sum, const auto& end) { return sum + end->counters().bytes_received(); });
  }

 private:
  static constexpr size_t kMaxBytes = 4096;
  const std::vector<std::byte> memory_ = std::vector<std::byte>(kMaxBytes);
  std::vector<std::unique_ptr<Transport>> ends_;
};

std::unique_ptr<Nodes> MakeNodes() {
  if (FLAGS_by == "bare") return std::make_unique<BareNodes>();
  if (FLAGS_by == "transport") return std::make_unique<TransportNodes>();
  throw Error("--by=", FLAGS_by, ": expected transport, bare or segment");
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void Pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Runs the nodes on threads of their own while Measure() measures.
class Threads {
 public:
  explicit Threads(Nodes* nodes) : nodes_(*nodes) {
    for (int node = 0; node < FLAGS_nodes; ++node) {
      patterns_.push_back(PatternOf(FLAGS_pattern, node, FLAGS_nodes));
    }
    for (int node = 0; node < FLAGS_nodes; ++node) {
      threads_.emplace_back([this, node] { Run(node); });
    }
  }
  // Throws what one of them has thrown.
  void Stop() {
    stop_ = true;
    nodes_.Wake();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void Run(int node) {
    try {
      nodes_.Run(node, node < FLAGS_senders ? &patterns_[node] : nullptr, stop_);
    } catch (...) {
      std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  Nodes& nodes_;
  std::vector<Pattern> patterns_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

void MeasurePattern() {
  const std::unique_ptr<Nodes> nodes = MakeNodes();
  Threads threads(nodes.get());
  // The transport has to find its peers first.
  for (const double start = Seconds(); nodes->bytes_received() == 0; Pause(0.01)) {
    if (Seconds() - start < kTimeoutSeconds) continue;
    threads.Stop();
    throw Error("nothing has arrived in ", kTimeoutSeconds, " s");
  }
  Pause(FLAGS_seconds / 5);
  const double begin = Seconds(), cpu = CpuSeconds();
  const uint64_t before = nodes->bytes_received();
  Pause(FLAGS_seconds);
  const auto bytes = static_cast<double>(nodes->bytes_received() - before);
  const double passed = Seconds() - begin, used = CpuSeconds() - cpu;
  threads.Stop();
  std::printf("{\"megabytes_per_second\": %.2f, \"cpu_seconds_per_gigabyte\": %.2f}\n",
              bytes * 1e-6 / passed, used / (bytes * 1e-9));
}

// Whoever has started this program counts what the devices send while nothing moves.
void LetCount(const char* line) {
  std::printf("%s\n", line);
  std::fflush(stdout);
  for (int c = 0; c != '\n' && c != EOF;) c = std::getchar();
}

// Members of a JSON object: those reasons that occurred.
std::string DropsBetween(const SegmentCounts& first, const SegmentCounts& last) {
  std::string text;
  for (const auto& [reason, frames] : last.drops) {
    const uint64_t dropped = frames - first.drops.at(reason);
    if (dropped == 0) continue;
    text += StrCat(text.empty() ? "" : ", ", "\"", reason, "\": ", dropped);
  }
  return text;
}

void MeasureSegment() {
  SegmentNodes nodes(LoadTopology(FLAGS_topology, TransportRegistry::Get().Names()), FLAGS_floats);
  nodes.AwaitRest();
  const SegmentCounts first = nodes.Read();
  LetCount("at rest");
  nodes.Load(true);
  // Where processors are scarce, the first weights may be long in coming.
  const double sweep = 4.0 * FLAGS_floats;
  for (const double start = Seconds(); nodes.Read().merged_bytes - first.merged_bytes < sweep;
       Pause(0.01)) {
    if (Seconds() - start > kTimeoutSeconds) {
      throw Error("the segment has merged next to nothing in ", kTimeoutSeconds, " s");
    }
  }
  Pause(FLAGS_seconds / 5);
  const SegmentCounts before = nodes.Read();
  const double begin = Seconds(), cpu = CpuSeconds();
  Pause(FLAGS_seconds);
  const SegmentCounts after = nodes.Read();
  const double passed = Seconds() - begin;
  const double load = after.load_cpu_seconds - before.load_cpu_seconds;
  const double used = CpuSeconds() - cpu - load;
  nodes.Load(false);
  nodes.AwaitRest();
  const SegmentCounts last = nodes.Read();
  const double bytes = after.merged_bytes - before.merged_bytes;
  LetCount(
      StrCat("{\"megabytes_per_second\": ", bytes * 1e-6 / passed,
             ", \"cpu_seconds_per_gigabyte\": ", used / (bytes * 1e-9),
             ", \"thread_cpu\": ", (after.thread_cpu_seconds - before.thread_cpu_seconds) / passed,
             ", \"load_cpu\": ", load / passed, ", \"resends\": ", last.resends - first.resends,
             ", \"drops\": {", DropsBetween(first, last), "}", ", \"position_bytes_taken\": ",
             static_cast<uint64_t>(last.position_bytes - first.position_bytes), "}")
          .c_str());
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = 1;
  try {
    if (FLAGS_by == "segment") {
      millrace::bench::MeasureSegment();
    } else {
      millrace::bench::MeasurePattern();
    }
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "verbs_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
