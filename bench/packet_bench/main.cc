// Goodput of the packet transport between two network namespaces joined by a veth
// pair, one thread sending and one receiving, beside bare system calls in the same run:
// sendmmsg into a TPACKET_V3 ring. Bytes received a second, in MB (10^6); medians. What
// the bare receiver loses is not counted.
//
//   build/bench/packet_bench --seconds=1 --repeats=5      (as root)
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/measure.h"
#include "bench/network/rate.h"
#include "bench/packet_bench/raw.h"
#include "test/netns/packet_network.h"

namespace packet_bench {
namespace {

using bench_network::Rate;
using bench_network::TransportRate;
using millrace::bench::Median;
using millrace::test::Network;

double RawRate(const Network& network, int mtu) {
  std::unique_ptr<RawSender> sender;
  std::unique_ptr<RawReceiver> receiver;
  network.Inside(
      0, [&] { sender = std::make_unique<RawSender>(Network::DeviceOf(0), Network::MacOf(1)); });
  network.Inside(1, [&] {
    receiver = std::make_unique<RawReceiver>(Network::DeviceOf(1), mtu > 2000 ? 65536 : 16384);
  });
  std::atomic<uint64_t> received{0};
  std::atomic<bool> stop{false};
  return Rate(
      &received, &stop, [&] { sender->Send(static_cast<size_t>(mtu), stop); },
      [&] { receiver->Receive(&received, stop); }, [] {});
}

double PacketRate(const Network& network) {
  millrace::PacketOptions options;
  options.window_frames = FLAGS_window_frames;
  const auto ends = millrace::test::ConnectPacketGroup(network, 2, options);
  return TransportRate(ends[0].get(), ends[1].get());
}

void Measure(int mtu) {
  const Network network(mtu);
  std::vector<double> raw, transport, ratio;
  for (int i = 0; i < FLAGS_repeats; ++i) {
    raw.push_back(RawRate(network, mtu));
    transport.push_back(PacketRate(network));
    ratio.push_back(transport.back() / raw.back());
  }
  std::printf("%5d  %-18s  %9.0f  %9.0f  %6.2f\n", mtu, "sendmmsg, ring", Median(raw),
              Median(transport), Median(ratio));
}

}  // namespace
}  // namespace packet_bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const std::string reason = packet_bench::Network::WhyNot();
  if (!reason.empty()) {
    std::printf("packet_bench needs network namespaces: %s\n", reason.c_str());
    return 0;
  }
  std::printf("%5s  %-18s  %9s  %9s  %6s\n", "MTU", "MB/s by", "bare", "transport", "ratio");
  for (int mtu : {1500, 9000}) packet_bench::Measure(mtu);
  return 0;
}
