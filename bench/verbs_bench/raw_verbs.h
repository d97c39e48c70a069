// Bare datagrams of RDMA devices: what libibverbs and librdmacm carry without frames,
// windows or an exchange. The bound that the benchmarks of the transport and of segments
// are held against.
#ifndef MILLRACE_BENCH_VERBS_BENCH_RAW_VERBS_H_
#define MILLRACE_BENCH_VERBS_BENCH_RAW_VERBS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/verbs_bench/pattern.h"
#include "transport/verbs/device.h"
#include "transport/verbs/groups.h"
#include "transport/verbs/queue_pair.h"

namespace millrace::bench {

// One node: a device's port, a queue pair, buffers, and a multicast group to send to.
// Datagrams are as long as the port's MTU. RoCE v2 only. Not thread-safe, but for
// bytes_received().
class RawVerbs {
 public:
  // Node `node` of `nodes`, at AddressOf(node). Throws Error with one line.
  RawVerbs(int node, int nodes);

  // So that it can send to each of them; `all` by node, this one included. Throws Error.
  void Connect(const std::vector<std::unique_ptr<RawVerbs>>& all);

  // Takes what arrives until `stop`; sends as fast as it can by `pattern`, if there is one.
  // Sleeps while there is nothing to do.
  void Run(const Pattern* pattern, const std::atomic<bool>& stop);

  // Any thread.
  uint64_t bytes_received() const { return bytes_received_; }

 private:
  struct Destination {
    AddressHandle address;
    uint32_t queue_pair = 0, key = 0;
  };

  void PostReceives(size_t count);
  bool Take();
  bool Send(const Pattern& pattern);
  void Reap();
  void Sleep(bool sends);

  VerbsDevice device_;
  const size_t bytes_, stride_;
  VerbsQueuePair queue_;
  VerbsGroups groups_;
  std::optional<VerbsGroups::Joined> own_group_;
  std::vector<Destination> peers_;  // by node
  std::vector<std::byte> sent_memory_, received_memory_;
  MemoryRegion sent_region_, received_region_;
  uint64_t sent_ = 0, done_ = 0;  // datagrams
  std::vector<uint32_t> free_;    // receive buffers to be posted
  std::atomic<uint64_t> bytes_received_{0};
};

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_VERBS_BENCH_RAW_VERBS_H_
