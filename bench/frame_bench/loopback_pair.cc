#include "bench/frame_bench/loopback_pair.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/measure.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/protocol/exchange.h"
#include "transport/loopback/transport.h"

namespace frame_bench {
namespace {

using namespace millrace;
using bench::Seconds;

constexpr size_t kBatch = 64;

class Node {
 public:
  Node(LoopbackHub* hub, uint16_t id, int64_t floats, int64_t chunk_floats)
      : floats_(3 * floats), transport_(hub->Connect(id)) {
    const ReplicaArrays arrays{
        floats_.data(), floats_.data() + floats, floats_.data() + 2 * floats, nullptr, floats,
        chunk_floats};
    executor_ = MakeHostExecutor(arrays);
    ExchangeConfig config;
    config.node = id;
    exchange_ = std::make_unique<Exchange>(config, executor_.get());
  }

  void Run(const std::atomic<bool>* stop) {
    while (!*stop) {
      const int64_t now = clock_.NowNs();
      Receive(now);
      exchange_->SetProgress(++iteration_);
      // Something to merge, or there would be no diff to send.
      floats_[iteration_ % (floats_.size() / 3)] += 1;
      Send(now);
      if (exchange_->view().synced() == 2) joined_ = true;
    }
  }
  bool joined() const { return joined_; }
  uint64_t frames() const { return frames_; }
  double exchanged_floats() const { return exchanged_; }

 private:
  void Receive(int64_t now) {
    InFrame in[kBatch];
    std::span<const std::byte> views[kBatch];
    const size_t count = transport_->Receive(in);
    for (size_t i = 0; i < count; ++i) views[i] = in[i].bytes;
    exchange_->Receive({views, count}, now);
    transport_->Release();
    frames_ = frames_ + count;
    const ExchangeStats& stats = exchange_->stats();
    exchanged_ = static_cast<double>((stats.positions_taken + stats.diffs_merged) *
                                     executor_->arrays().chunk_floats);
  }

  void Send(int64_t now) {
    if (sent_ == posted_) {
      posted_ = exchange_->Send(room_, now);
      sent_ = 0;
      for (size_t i = 0; i < posted_; ++i) {
        out_[i] = {room_[i].destination, room_[i].head, room_[i].payload};
      }
    }
    const size_t accepted = transport_->Send({out_ + sent_, posted_ - sent_}).accepted;
    for (size_t i = 0; i < accepted; ++i) exchange_->Release(room_[sent_ + i].slot);
    sent_ += accepted;
  }

  SteadyClock clock_;
  std::vector<float> floats_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ChunkExecutor> executor_;
  std::unique_ptr<Exchange> exchange_;
  uint64_t iteration_ = 0;
  std::atomic<bool> joined_ = false;
  std::atomic<uint64_t> frames_ = 0;
  std::atomic<double> exchanged_ = 0;
  PostedFrame room_[kBatch];
  OutFrame out_[kBatch];
  size_t posted_ = 0, sent_ = 0;
};

}  // namespace

PairRates MeasurePair(int64_t floats, int64_t chunk_floats, double seconds) {
  LoopbackHub hub{LoopbackOptions{}};
  Node a(&hub, 0, floats, chunk_floats), b(&hub, 1, floats, chunk_floats);
  std::atomic<bool> stop = false;
  std::thread threads[] = {std::thread([&] { a.Run(&stop); }), std::thread([&] { b.Run(&stop); })};
  while (!a.joined() || !b.joined()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double begin = Seconds();
  const double frames = static_cast<double>(a.frames() + b.frames());
  const double floats_before = a.exchanged_floats() + b.exchanged_floats();
  while (Seconds() < begin + seconds) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double spent = Seconds() - begin;
  const PairRates rates{
      (static_cast<double>(a.frames() + b.frames()) - frames) / spent,
      (a.exchanged_floats() + b.exchanged_floats() - floats_before) * 4e-9 / spent};
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return rates;
}

}  // namespace frame_bench
