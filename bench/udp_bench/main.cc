// Goodput of the UDP transport between two network namespaces joined by a veth
// pair, one thread sending and one receiving, beside bare system calls in the same
// run: sendmmsg/recvmmsg without offloads, and UDP_SEGMENT/UDP_GRO. Bytes received a
// second, in MB (10^6); medians. What the bare receivers lose is not counted.
//
//   build/bench/udp_bench --seconds=1 --repeats=5      (as root)
#include <fcntl.h>
#include <gflags/gflags.h>

#include <sys/socket.h>
#include <sys/time.h>

#include <cstdio>
#include <vector>

#include "base/error.h"
#include "bench/measure.h"
#include "bench/network/rate.h"
#include "bench/udp_bench/raw.h"
#include "test/netns/udp_network.h"

namespace udp_bench {
namespace {

using bench_network::Rate;
using bench_network::TransportRate;
using millrace::UdpSocket;
using millrace::bench::Median;
using millrace::test::Network;

double RawRate(const Network& network, size_t payload, bool offloads) {
  millrace::UdpSocketOptions options;
  options.gso = options.gro = false;
  UdpSocket sockets[] = {SocketInside(network, 0, options), SocketInside(network, 1, options)};
  for (const int i : {0, 1}) {
    const auto& peer = sockets[1 - i].local();
    // Blocking, but not for ever: `stop` has to be seen.
    const timeval limit = {0, 50'000};
    setsockopt(sockets[i].fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    fcntl(sockets[i].fd(), F_SETFL, 0);
    if (connect(sockets[i].fd(), &peer.any, peer.length()) != 0) throw millrace::Error("connect");
  }
  std::atomic<uint64_t> received{0};
  std::atomic<bool> stop{false};
  return Rate(
      &received, &stop, [&] { SendRaw(sockets[0].fd(), payload, offloads, stop); },
      [&] { ReceiveRaw(sockets[1].fd(), payload, offloads, &received, stop); }, [] {});
}

double UdpRate(const Network& network, bool offloads) {
  millrace::UdpOptions options;
  options.window_frames = FLAGS_window_frames;
  millrace::UdpSocketOptions socket;
  socket.gso = socket.gro = offloads;
  const auto ends = AcrossNetwork(network, 2, options, socket);
  return TransportRate(ends[0].get(), ends[1].get());
}

void Measure(int mtu) {
  const Network network(mtu);
  const size_t payload = static_cast<size_t>(mtu) - 28;
  for (const bool offloads : {false, true}) {
    std::vector<double> raw, transport, ratio;
    for (int i = 0; i < FLAGS_repeats; ++i) {
      raw.push_back(RawRate(network, payload, offloads));
      transport.push_back(UdpRate(network, offloads));
      ratio.push_back(transport.back() / raw.back());
    }
    std::printf("%5d  %-18s  %9.0f  %9.0f  %6.2f\n", mtu,
                offloads ? "GSO and GRO" : "sendmmsg, recvmmsg", Median(raw), Median(transport),
                Median(ratio));
  }
}

}  // namespace
}  // namespace udp_bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const std::string reason = udp_bench::Network::WhyNot();
  if (!reason.empty()) {
    std::printf("udp_bench needs network namespaces: %s\n", reason.c_str());
    return 0;
  }
  std::printf("%5s  %-18s  %9s  %9s  %6s\n", "MTU", "MB/s by", "bare", "transport", "ratio");
  for (int mtu : {1500, 9000}) udp_bench::Measure(mtu);
  return 0;
}
