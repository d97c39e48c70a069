// What the exchange's state machine costs per frame, payload aside: two nodes hand
// each other frames of one float, on one thread, with an executor that does nothing.
// A measurement is the median over rounds of 128 frames: in other rounds the thread was
// interrupted.
// Then the same end to end: two threads, real kernels, the loopback transport, chunks
// for frames of 1,500 and 9,000 bytes. Prints one line of JSON.
//
//   build/bench/frame_bench --repeats=9
//
// Instructions do not depend on who else is busy on the machine. With --rounds the state
// machine alone runs, as often each time, so that the difference of two runs is that of
// as many frames as is printed:
//
//   valgrind --tool=callgrind --toggle-collect='*Step*' build/bench/frame_bench --rounds=2000
#include <gflags/gflags.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/frame_bench/loopback_pair.h"
#include "bench/measure.h"
#include "exchange/protocol/exchange.h"

DEFINE_int32(repeats, 9, "measurements; medians are printed");
DEFINE_double(seconds, 0.1, "how long a measurement takes at least");
DEFINE_int32(rounds, 0, "if not 0: so many rounds of the state machine, and nothing else");

namespace {

using namespace millrace;
using bench::Median;
using bench::Seconds;

constexpr int64_t kChunks = 4096;
constexpr size_t kBatch = 64;
constexpr size_t kStride = 2048;  // room for a heartbeat too
constexpr int64_t kStepNs = 1000;
constexpr int64_t kPairFloats = 431'080;  // LeNet's weights

// Finds a diff in every chunk from which it is asked to take one.
class NullExecutor : public ChunkExecutor {
 public:
  NullExecutor() : floats_(3 * kChunks) {
    arrays_ = {floats_.data(),
               floats_.data() + kChunks,
               floats_.data() + 2 * kChunks,
               nullptr,
               kChunks,
               1};
  }
  void Run(std::span<ChunkOp> ops) override {
    for (ChunkOp& op : ops) {
      op.result = op.take || op.kind == ChunkOpKind::kTake ? kNonZero : 0;
      op.out_codec = Codec::kFloat32;
      op.out_bytes = 4;
    }
  }
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  std::vector<float> floats_;
  ReplicaArrays arrays_;
};

// Frames on their way to one node.
struct Wire {
  std::vector<uint64_t> words = std::vector<uint64_t>(kBatch * kStride / 8);
  std::vector<std::span<const std::byte>> frames;
};

struct Node {
  NullExecutor executor;
  std::unique_ptr<Exchange> exchange;
  Wire in;
  uint64_t sent = 0, received = 0;
  double sending = 0, receiving = 0;  // seconds
};

void Step(Node* from, Node* to, int64_t now) {
  PostedFrame out[kBatch];
  const double begin = Seconds();
  const size_t count = from->exchange->Send(out, now);
  from->sending += Seconds() - begin;
  from->sent += count;
  to->in.frames.clear();
  for (size_t i = 0; i < count; ++i) {
    auto* bytes = reinterpret_cast<std::byte*>(to->in.words.data()) + i * kStride;
    std::memcpy(bytes, out[i].head.data(), out[i].head.size());
    std::memcpy(bytes + out[i].head.size(), out[i].payload.data(), out[i].payload.size());
    to->in.frames.push_back({bytes, out[i].head.size() + out[i].payload.size()});
    from->exchange->Release(out[i].slot);
  }
  const double middle = Seconds();
  to->exchange->Receive(to->in.frames, now);
  to->receiving += Seconds() - middle;
  to->received += count;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  Node nodes[2];
  for (uint16_t id = 0; id < 2; ++id) {
    ExchangeConfig config;
    config.node = id;
    nodes[id].exchange = std::make_unique<Exchange>(config, &nodes[id].executor);
  }
  int64_t now = 0;
  uint64_t iteration = 0;
  const auto round = [&](int64_t ns) {
    ++iteration;
    for (Node& node : nodes) node.exchange->SetProgress(iteration);
    Step(&nodes[0], &nodes[1], now += ns);
    Step(&nodes[1], &nodes[0], now += ns);
  };
  while (nodes[1].exchange->view().synced() < 2) round(1'000'000);
  if (FLAGS_rounds > 0) {
    const uint64_t before = nodes[0].sent + nodes[1].sent;
    for (int i = 0; i < FLAGS_rounds; ++i) round(kStepNs);
    std::printf("{\"frames\": %lu}\n",
                static_cast<unsigned long>(nodes[0].sent + nodes[1].sent - before));
    return 0;
  }
  std::vector<double> send_ns, receive_ns;
  for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
    std::vector<double> sends, receives;  // of each round
    for (const double end = Seconds() + FLAGS_seconds; Seconds() < end;) {
      for (Node& node : nodes) node.sent = node.received = node.sending = node.receiving = 0;
      round(kStepNs);
      const double sent = nodes[0].sent + nodes[1].sent;
      sends.push_back((nodes[0].sending + nodes[1].sending) / sent * 1e9);
      receives.push_back((nodes[0].receiving + nodes[1].receiving) / sent * 1e9);
    }
    send_ns.push_back(Median(sends));
    receive_ns.push_back(Median(receives));
  }
  std::printf("{\"send_ns\": %.1f, \"receive_ns\": %.1f, \"pair\": {", Median(send_ns),
              Median(receive_ns));
  const char* comma = "";
  for (const int64_t chunk_floats : {350, 2200}) {
    std::vector<double> frames, gigabytes;
    for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
      const frame_bench::PairRates rates =
          frame_bench::MeasurePair(kPairFloats, chunk_floats, FLAGS_seconds);
      frames.push_back(rates.frames_per_second);
      gigabytes.push_back(rates.exchanged_gb_per_second);
    }
    std::printf("%s\"%ld\": {\"frames_per_second\": %.0f, \"exchanged_gb_per_second\": %.3f}",
                comma, static_cast<long>(chunk_floats * 4), Median(frames), Median(gigabytes));
    comma = ", ";
  }
  std::printf("}}\n");
  return 0;
}
