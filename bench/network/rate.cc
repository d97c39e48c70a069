#include "bench/network/rate.h"

#include <chrono>
#include <thread>
#include <vector>

DEFINE_double(seconds, 1, "how long each measurement is");
DEFINE_int32(repeats, 5, "measurements; the medians are printed");
DEFINE_int32(window_frames, 0, "of the transport; 0: its default");

namespace bench_network {

using millrace::InFrame;
using millrace::OutFrame;
using millrace::SendStatus;
using millrace::WaitFor;

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

double TransportRate(millrace::Transport* sender, millrace::Transport* receiver) {
  constexpr size_t kHeader = 64, kBatch = 128;
  const std::vector<std::byte> bytes(sender->max_frame_bytes());
  const std::span<const std::byte> all(bytes);
  const std::vector<OutFrame> batch(kBatch, {1, all.first(kHeader), all.subspan(kHeader)});
  std::atomic<uint64_t> received{0};
  std::atomic<bool> stop{false};
  const auto send = [&] {
    while (!stop) {
      if (sender->Send(batch).status == SendStatus::kBusy) {
        sender->Wait(INT64_MAX, WaitFor::kReceiveOrSend);
      }
    }
  };
  const auto receive = [&] {
    std::vector<InFrame> frames(kBatch);
    while (!stop) {
      if (receiver->Receive(frames) == 0) receiver->Wait(INT64_MAX, WaitFor::kReceive);
      receiver->Release();
      received = receiver->counters().bytes_received();
    }
  };
  return Rate(&received, &stop, send, receive, [&] {
    sender->Wake();
    receiver->Wake();
  });
}

}  // namespace bench_network
