// Goodput of the UDP transport between two network namespaces joined by a veth
// pair, one thread sending and one receiving, beside bare system calls in the same
// run: sendmmsg/recvmmsg without offloads, and UDP_SEGMENT/UDP_GRO. Bytes received a
// second, in MB (10^6); medians. What the bare receivers lose is not counted.
//
//   build/bench/udp_bench --seconds=1 --repeats=5      (as root)
#include <fcntl.h>
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/measure.h"
#include "bench/udp_bench/raw.h"
#include "test/netns/network.h"
#include "transport/udp.h"

DEFINE_double(seconds, 1, "how long each measurement is");
DEFINE_int32(repeats, 5, "measurements; the medians are printed");
DEFINE_int32(window_frames, 0, "of the transport; 0: its default");

namespace udp_bench {
namespace {

using millrace::InFrame;
using millrace::NodeId;
using millrace::OutFrame;
using millrace::SendStatus;
using millrace::UdpSocket;
using millrace::WaitFor;
using millrace::bench::Median;
using millrace::test::Network;

using Sockets = std::vector<UdpSocket>;

Sockets MakeSockets(const Network& network, bool offloads) {
  Sockets sockets;
  for (int machine : {0, 1}) {
    network.Inside(machine, [&] {
      millrace::UdpSocketOptions options;
      options.address = Network::AddressOf(machine) + ":0";
      options.gso = options.gro = offloads;
      sockets.emplace_back(options);
    });
  }
  return sockets;
}

// MB/s of what `received` counts while both run.
double Rate(std::atomic<uint64_t>* received, std::atomic<bool>* stop,
            const std::function<void()>& send, const std::function<void()>& receive,
            const std::function<void()>& wake) {
  std::thread receiver(receive), sender(send);
  const auto pause = [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  pause(FLAGS_seconds / 5);
  const auto start = std::chrono::steady_clock::now();
  const uint64_t before = *received;
  pause(FLAGS_seconds);
  const uint64_t bytes = *received - before;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  *stop = true;
  wake();
  sender.join();
  receiver.join();
  return static_cast<double>(bytes) * 1e-6 / passed.count();
}

double RawRate(const Network& network, size_t payload, bool offloads) {
  Sockets sockets = MakeSockets(network, false);
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

double TransportRate(const Network& network, bool offloads) {
  Sockets sockets = MakeSockets(network, offloads);
  const std::string addresses[] = {sockets[0].local().Text(), sockets[1].local().Text()};
  std::unique_ptr<millrace::Transport> ends[2];
  for (const int i : {0, 1}) {
    millrace::UdpOptions options;
    options.node = static_cast<NodeId>(i);
    options.window_frames = FLAGS_window_frames;
    options.peers = {{static_cast<NodeId>(1 - i), addresses[1 - i]}};
    ends[i] = ConnectUdp(std::move(sockets[i]), options);
  }
  constexpr size_t kHeader = 64, kBatch = 128;
  const std::vector<std::byte> bytes(ends[0]->max_frame_bytes());
  const std::span<const std::byte> all(bytes);
  const std::vector<OutFrame> batch(kBatch, {1, all.first(kHeader), all.subspan(kHeader)});
  std::atomic<uint64_t> received{0};
  std::atomic<bool> stop{false};
  const auto send = [&] {
    while (!stop) {
      if (ends[0]->Send(batch).status == SendStatus::kBusy) {
        ends[0]->Wait(INT64_MAX, WaitFor::kReceiveOrSend);
      }
    }
  };
  const auto receive = [&] {
    std::vector<InFrame> frames(kBatch);
    while (!stop) {
      if (ends[1]->Receive(frames) == 0) ends[1]->Wait(INT64_MAX, WaitFor::kReceive);
      ends[1]->Release();
      received = ends[1]->counters().bytes_received();
    }
  };
  return Rate(&received, &stop, send, receive, [&] {
    for (auto& end : ends) end->Wake();
  });
}

void Measure(int mtu) {
  const Network network(mtu);
  const size_t payload = static_cast<size_t>(mtu) - 28;
  for (const bool offloads : {false, true}) {
    std::vector<double> raw, transport, ratio;
    for (int i = 0; i < FLAGS_repeats; ++i) {
      raw.push_back(RawRate(network, payload, offloads));
      transport.push_back(TransportRate(network, offloads));
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
