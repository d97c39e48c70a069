// How fast frames cross a loopback pair, beside two bounds measured in the same
// run: one thread copying the same bytes, and a bare ring between two threads.
//
// Each measurement lasts --seconds and is repeated; the medians are printed, as
// millions of frames and GB (10^9 bytes) of header and payload a second.
//
//   build/bench/transport_bench --seconds=1 --repeats=5
#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/measure.h"
#include "transport/loopback/transport.h"

DEFINE_double(seconds, 1, "how long each measurement is");
DEFINE_int32(repeats, 5, "measurements; the medians are printed");

namespace millrace {
namespace {

using bench::Median;

constexpr size_t kHeaderBytes = 64, kBatch = 32, kQueue = 256;

// Frames a second, of what `step` says that it moved each time it is called.
double Rate(const std::function<size_t()>& step) {
  SteadyClock clock;
  const double start = clock.NowSeconds();
  size_t frames = 0;
  double now = start;
  while (now - start < FLAGS_seconds) {
    for (int i = 0; i < 16; ++i) frames += step();
    now = clock.NowSeconds();
  }
  return static_cast<double>(frames) / (now - start);
}

// One thread that copies header and payload into a ring of slots.
double CopyRate(size_t payload_bytes) {
  const size_t bytes = kHeaderBytes + payload_bytes;
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes * kQueue);
  size_t slot = 0;
  return Rate([&] {
    for (size_t i = 0; i < kBatch; ++i) {
      char* target = to.data() + slot++ % kQueue * bytes;
      std::memcpy(target, from.data(), kHeaderBytes);
      std::memcpy(target + kHeaderBytes, from.data() + kHeaderBytes, payload_bytes);
      asm volatile("" : : "r"(target) : "memory");
    }
    return kBatch;
  });
}

// The least that two threads can do: two positions and the copies.
double RingRate(size_t payload_bytes) {
  const size_t bytes = kHeaderBytes + payload_bytes;
  const std::vector<char> from(bytes, 1);
  std::vector<char> ring(bytes * kQueue);
  alignas(64) std::atomic<size_t> written{0};
  alignas(64) std::atomic<size_t> read{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const size_t end = written.load(std::memory_order_acquire);
      if (end == read.load(std::memory_order_relaxed)) std::this_thread::yield();
      read.store(end, std::memory_order_release);
    }
  });
  size_t position = 0;
  const double rate = Rate([&] {
    const size_t room = kQueue - (position - read.load(std::memory_order_acquire));
    if (room == 0) std::this_thread::yield();
    const size_t count = std::min(room, kBatch);
    for (size_t i = 0; i < count; ++i, ++position) {
      std::memcpy(ring.data() + position % kQueue * bytes, from.data(), bytes);
    }
    written.store(position, std::memory_order_release);
    return count;
  });
  stop = true;
  reader.join();
  return rate;
}

double LoopbackRate(size_t payload_bytes) {
  LoopbackHub hub({.nodes = 2, .queue_frames = kQueue});
  auto sender = hub.Connect(0), receiver = hub.Connect(1);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    InFrame frames[kBatch];
    while (!stop) {
      if (receiver->Receive(frames) == 0) receiver->Wait(INT64_MAX, WaitFor::kReceive);
      receiver->Release();
    }
  });
  const std::vector<std::byte> bytes(kHeaderBytes + payload_bytes);
  const std::span<const std::byte> all(bytes);
  const std::vector<OutFrame> batch(
      kBatch, OutFrame{1, all.first(kHeaderBytes), all.subspan(kHeaderBytes)});
  const double rate = Rate([&] {
    const SendResult result = sender->Send(batch);
    if (result.status == SendStatus::kBusy) sender->Wait(INT64_MAX, WaitFor::kReceiveOrSend);
    return result.accepted;
  });
  stop = true;
  receiver->Wake();
  reader.join();
  return rate;
}

void Measure(size_t payload_bytes) {
  std::vector<double> copy, ring, loopback;
  for (int i = 0; i < FLAGS_repeats; ++i) {
    copy.push_back(CopyRate(payload_bytes));
    ring.push_back(RingRate(payload_bytes));
    loopback.push_back(LoopbackRate(payload_bytes));
  }
  const double bytes = static_cast<double>(kHeaderBytes + payload_bytes);
  std::printf("%8zu", payload_bytes);
  for (const double rate : {Median(copy), Median(ring), Median(loopback)}) {
    std::printf("  %8.2f %8.2f", rate * 1e-6, rate * bytes * 1e-9);
  }
  std::printf("  %6.2f\n", Median(loopback) / Median(ring));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::printf("%8s  %17s  %17s  %17s  %6s\n", "payload", "memcpy, 1 thread", "bare ring",
              "loopback", "of the");
  std::printf("%8s  %8s %8s  %8s %8s  %8s %8s  %6s\n", "bytes", "Mframe/s", "GB/s", "Mframe/s",
              "GB/s", "Mframe/s", "GB/s", "ring");
  for (size_t payload_bytes : {64, 1408, 8900}) millrace::Measure(payload_bytes);
  return 0;
}
