// What a network transport carries when both ends send and receive, one thread each, as a
// segment's do, between two network namespaces joined by a veth pair: bytes of frames
// received a second at both ends together, in MB (10^6). Prints that number.
//
// --work says what the threads do with the bytes: "none", the same few are sent again and
// again, and nobody reads them; "merge", the least that streaming weights takes: payloads come
// from an array as large as a segment's, each has a checksum, which the receiver compares before
// it adds the payload to an array of its own. There is no protocol, no copy, no worker's end (two
// more arrays), and nothing else that changes the weights.
//
//   build/bench/duplex_bench --transport=udp --mtu=1500 --work=merge --seconds=1      (as root)
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "bench/measure.h"
#include "bench/network/rate.h"
#include "exchange/kernels/host_executor.h"
#include "test/netns/packet_network.h"
#include "test/netns/udp_network.h"

DEFINE_string(transport, "udp", "udp or packet");
DEFINE_int32(mtu, 1500, "of the pair");
DEFINE_string(work, "none", "none or merge");
DEFINE_int64(weights, int64_t{1} << 20, "of each end, with --work=merge");

namespace millrace::bench {
namespace {

using test::Network;

using Ends = std::vector<std::unique_ptr<Transport>>;

Ends Connect(const Network& network) {
  const std::map<std::string, std::function<Ends()>> by_name = {
      {"udp", [&] { return test::AcrossNetwork(network, 2, UdpOptions(), UdpSocketOptions()); }},
      {"packet", [&] { return test::ConnectPacketGroup(network, 2, PacketOptions()); }}};
  const auto found = by_name.find(FLAGS_transport);
  CHECK(found != by_name.end()) << "--transport=" << FLAGS_transport << ": expected udp or packet";
  return found->second();
}

constexpr size_t kHeader = 64, kBatch = 64;

// What one end sends and does with what it receives.
class Work {
 public:
  virtual ~Work() = default;
  // kBatch frames, as they were but for the first `sent`, which are others.
  virtual std::span<const OutFrame> Frames(size_t sent) = 0;
  virtual void Take(std::span<const InFrame> frames) = 0;
};

class NoWork : public Work {
 public:
  NoWork(NodeId to, size_t frame_bytes)
      : bytes_(frame_bytes),
        batch_(kBatch, {to, std::span(bytes_).first(kHeader), std::span(bytes_).subspan(kHeader)}) {
  }
  std::span<const OutFrame> Frames(size_t) override { return batch_; }
  void Take(std::span<const InFrame>) override {}

 private:
  const std::vector<std::byte> bytes_;
  const std::vector<OutFrame> batch_;
};

class MergeWork : public Work {
 public:
  MergeWork(NodeId to, size_t frame_bytes)
      : to_(to),
        chunk_((frame_bytes - kHeader) / sizeof(float)),
        chunks_(static_cast<size_t>(FLAGS_weights) / chunk_),
        out_(chunks_ * chunk_, 1.0f),
        merged_(chunks_ * chunk_),
        headers_(2 * kBatch),
        executor_(MakeHostExecutor({.weights = merged_.data(),
                                    .size = static_cast<int64_t>(merged_.size()),
                                    .chunk_floats = static_cast<int64_t>(chunk_)})) {
    CHECK_GT(chunks_, 0u) << "too few --weights for a frame";
    batch_.reserve(kBatch);
    ops_.reserve(kBatch);
  }

  std::span<const OutFrame> Frames(size_t sent) override {
    batch_.erase(batch_.begin(), batch_.begin() + static_cast<ptrdiff_t>(sent));
    while (batch_.size() < kBatch) {
      const auto payload = std::as_bytes(std::span(out_).subspan(made_ % chunks_ * chunk_, chunk_));
      Header& header = headers_[made_++ % headers_.size()];
      const uint32_t checksum = Crc32c(payload);
      std::memcpy(header.data(), &checksum, sizeof(checksum));
      batch_.push_back({to_, header, payload});
    }
    return batch_;
  }

  void Take(std::span<const InFrame> frames) override {
    ops_.clear();
    for (const InFrame& frame : frames) {
      const auto payload = frame.bytes.subspan(kHeader);
      uint32_t checksum;
      std::memcpy(&checksum, frame.bytes.data(), sizeof(checksum));
      CHECK_EQ(Crc32c(payload), checksum);
      ChunkOp op;
      op.kind = ChunkOpKind::kMerge;
      op.chunk = static_cast<uint32_t>(taken_++ % chunks_);
      op.in = payload.data();
      op.in_bytes = static_cast<uint32_t>(payload.size());
      ops_.push_back(op);
    }
    executor_->Run(ops_);
  }

 private:
  using Header = std::array<std::byte, kHeader>;

  const NodeId to_;
  const size_t chunk_, chunks_;
  const std::vector<float> out_;
  std::vector<float> merged_;
  std::vector<Header> headers_;
  const std::unique_ptr<ChunkExecutor> executor_;
  std::vector<OutFrame> batch_;
  std::vector<ChunkOp> ops_;
  size_t made_ = 0, taken_ = 0;
};

// One thread's work: sends what there is room for, takes what is there.
void Exchange(Transport* end, Work* work, const std::atomic<bool>& stop) {
  std::vector<InFrame> frames(kBatch);
  for (size_t sent = 0; !stop;) {
    const SendResult result = end->Send(work->Frames(sent));
    sent = result.accepted;
    const size_t received = end->Receive(frames);
    work->Take(std::span(frames).first(received));
    end->Release();
    const bool busy = result.status == SendStatus::kBusy;
    if (busy && received == 0) end->Wait(INT64_MAX, WaitFor::kReceiveOrSend);
  }
}

std::unique_ptr<Work> MakeWork(NodeId to, size_t frame_bytes) {
  if (FLAGS_work == "merge") return std::make_unique<MergeWork>(to, frame_bytes);
  CHECK_EQ(FLAGS_work, "none");
  return std::make_unique<NoWork>(to, frame_bytes);
}

double Measure() {
  const Network network(FLAGS_mtu);
  const auto ends = Connect(network);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const int i : {0, 1}) {
    threads.emplace_back([&, i] {
      const auto work = MakeWork(static_cast<NodeId>(1 - i), ends[i]->max_frame_bytes());
      Exchange(ends[i].get(), work.get(), stop);
    });
  }
  const auto received = [&] {
    return static_cast<double>(ends[0]->counters().bytes_received() +
                               ends[1]->counters().bytes_received());
  };
  const auto pause = [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  pause(FLAGS_seconds / 5);
  const double bytes = received(), begin = Seconds();
  pause(FLAGS_seconds);
  const double rate = (received() - bytes) / (Seconds() - begin);
  stop = true;
  for (const auto& end : ends) end->Wake();
  for (std::thread& thread : threads) thread.join();
  return rate * 1e-6;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::printf("%.1f\n", millrace::bench::Measure());
  return 0;
}
