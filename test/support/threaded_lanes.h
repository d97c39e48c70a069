// Lanes of a block (exchange/kernels/kernel_block.h) as host threads that run concurrently. A
// missing wait is a race that the thread sanitizer detects.
#ifndef MILLRACE_TEST_SUPPORT_THREADED_LANES_H_
#define MILLRACE_TEST_SUPPORT_THREADED_LANES_H_

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

namespace millrace::test {

// State shared by the threads of a block.
template <uint32_t kThreads>
struct ThreadedBlock {
  std::barrier<> barrier{kThreads};
  uint32_t passed_on[kThreads] = {};
};

template <uint32_t kLanesOfWarp, uint32_t kWarpsOfBlock>
class ThreadedLanes {
 public:
  static constexpr uint32_t kWarp = kLanesOfWarp, kWarps = kWarpsOfBlock;
  using Block = ThreadedBlock<kWarp * kWarps>;

  ThreadedLanes(Block* block, uint32_t index) : block_(block), index_(index) {}

  uint32_t index() const { return index_; }
  void Sync() const { block_->barrier.arrive_and_wait(); }
  // All threads of the block take part, even if those of one warp suffice, because all follow the
  // same control flow.
  uint32_t Up(uint32_t x, uint32_t n) const {
    return Pass(x, index_ % kWarp >= n ? index_ - n : index_);
  }
  uint32_t Across(uint32_t x, uint32_t n) const { return Pass(x, index_ ^ n); }

 private:
  uint32_t Pass(uint32_t x, uint32_t from) const {
    block_->passed_on[index_] = x;
    Sync();
    const uint32_t passed = block_->passed_on[from];
    Sync();
    return passed;
  }

  Block* block_;
  uint32_t index_;
};

// Runs body(lanes) on all threads of a block and joins them.
template <typename Lanes, typename Body>
void RunThreaded(Body body) {
  typename Lanes::Block block;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < Lanes::kWarp * Lanes::kWarps; ++i) {
    threads.emplace_back([&, i] { body(Lanes(&block, i)); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_THREADED_LANES_H_
