// What a network transport carries when both ends send and receive, one thread each, as a
// segment's do, between two network namespaces joined by a veth pair: bytes of frames
// received a second at both ends together, in MB (10^6). Prints that number.
//
//   build/bench/duplex_bench --transport=udp --mtu=1500 --seconds=1      (as root)
#include <gflags/gflags.h>

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/network/rate.h"
#include "test/netns/packet_network.h"
#include "test/netns/udp_network.h"

DEFINE_string(transport, "udp", "udp or packet");
DEFINE_int32(mtu, 1500, "of the pair");

namespace millrace::bench {
namespace {

using test::Network;

std::vector<std::unique_ptr<Transport>> Connect(const Network& network) {
  if (FLAGS_transport == "packet") return test::ConnectPacketGroup(network, 2, PacketOptions());
  return test::AcrossNetwork(network, 2, UdpOptions(), UdpSocketOptions());
}

// One thread's work: sends what there is room for, takes what is there.
void Exchange(Transport* end, NodeId other, const std::atomic<bool>& stop) {
  constexpr size_t kHeader = 64, kBatch = 64;
  const std::vector<std::byte> bytes(end->max_frame_bytes());
  const std::span<const std::byte> all(bytes);
  const std::vector<OutFrame> batch(kBatch, {other, all.first(kHeader), all.subspan(kHeader)});
  std::vector<InFrame> frames(kBatch);
  while (!stop) {
    const bool busy = end->Send(batch).status == SendStatus::kBusy;
    const size_t received = end->Receive(frames);
    end->Release();
    if (busy && received == 0) end->Wait(INT64_MAX, WaitFor::kReceiveOrSend);
  }
}

double Measure() {
  const Network network(FLAGS_mtu);
  const auto ends = Connect(network);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const int i : {0, 1}) {
    threads.emplace_back([&, i] { Exchange(ends[i].get(), static_cast<NodeId>(1 - i), stop); });
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
