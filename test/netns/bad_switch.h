// A faulty switch that replaces the bridge of a Network: it loses, duplicates, reorders and damages
// frames at random, from a seed. It needs no kernel features beyond those of Network.
//
// Damage and checksums: between two veth devices the kernel leaves UDP checksums to a device that
// never computes them, so a damaged packet would be accepted. The switch turns this offload off:
// machines send packets with checksums, no longer than the MTU, and the receiving kernel checks
// each one. Damaged packets then never reach the program: the kernel drops and counts them. The
// checksum does not detect damage that happens before it is recomputed (in a router's memory, for
// example); the switch emulates such damage by clearing the checksum. Raw Ethernet has a checksum
// on real wires only, not here: all damage to it reaches the receiver.
//
// Each link, from one machine to another, has its own harm, which may change at any time. The
// switch can also send forged frames, made from frames that it has carried.
#ifndef MILLRACE_TEST_NETNS_BAD_SWITCH_H_
#define MILLRACE_TEST_NETNS_BAD_SWITCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "millrace/file_descriptor.h"
#include "test/netns/network.h"

namespace millrace::test {

// Fractions of the frames, from 0 to 1. UDP and TCP over IPv4 and frames of the packet transport
// are harmed. Damage to TCP segments is always one that the receiving kernel detects.
struct Harm {
  double lose = 0;
  double duplicate = 0;  // delivered twice, back to back
  double reorder = 0;    // overtaken by up to 32 other frames
  double damage = 0;     // one byte after the Ethernet, IP and UDP headers is changed
  // Longer frames, Ethernet header included, are dropped silently; 0: no limit.
  size_t max_bytes = 0;
  bool cut = false;  // drops everything, frames of other protocols included
};

// Frames that a hostile machine on the network could send. They carry the headers of a frame that
// passed the switch, so they name a real sender and reach a real receiver.
enum class Forgery {
  kRandom,     // random bytes, at most as many as the original
  kReplay,     // an identical copy, however old
  kTruncated,  // a truncated copy with matching header lengths and checksums
};

class BadSwitch {
 public:
  // Number of frames by fate. Any thread may read them at any time.
  struct Counts {
    std::atomic<uint64_t> passed{0}, lost{0}, duplicated{0}, reordered{0};
    std::atomic<uint64_t> damaged{0};  // with a checksum that lets the receiving kernel detect it
    std::atomic<uint64_t> damaged_unseen{0};
    std::atomic<uint64_t> too_long{0}, cut{0}, forged{0};
  };

  // `network` must have a bridge (three machines or more); the switch takes its ports away.
  // `network` outlives the switch. Throws Error if a step fails.
  BadSwitch(const Network& network, const Harm& harm, uint64_t seed);
  ~BadSwitch();
  BadSwitch(const BadSwitch&) = delete;
  BadSwitch& operator=(const BadSwitch&) = delete;

  const Counts& counts() const { return counts_; }

  // Sets the harm of the link from machine `from` to machine `to`. Thread-safe.
  void SetHarm(int from, int to, const Harm& harm);
  // Schedules this number of forged frames; sends none before the switch has carried a frame.
  // Thread-safe.
  void Forge(Forgery kind, int frames);

 private:
  using Frame = std::vector<uint8_t>;
  struct Held {
    Frame frame;
    size_t to;
    int passes;  // remaining frames that may overtake it
  };
  struct Carried {
    Frame frame;
    size_t to;
  };
  struct Order {
    Forgery kind;
    int frames;
  };

  void Pass();  // thread body
  void Read(size_t port);
  void Harass(const Frame& frame, size_t from, size_t to);
  void Damage(Frame* frame, size_t begin);
  void Send(const Frame& frame, size_t to);
  void SendHeld(bool all);
  void Remember(const Frame& frame, size_t to);
  void ObeyOthers();
  void SendForged(const Order& order);
  Frame Forged(Forgery kind, const Frame& frame);
  bool Falls(double share) { return share > 0 && rng_.Uniform() < share; }
  size_t LinkOf(size_t from, size_t to) const { return from * ports_.size() + to; }

  const Network& network_;
  Rng rng_;
  std::vector<FileDescriptor> ports_;  // one raw socket per port
  std::deque<Held> held_;
  std::vector<Carried> carried_;  // a sample of all frames so far, for forgeries
  uint64_t seen_ = 0;             // frames eligible for carried_
  std::vector<Harm> harms_;       // by LinkOf(sender, receiver)
  // Requests of other threads. The switch's thread rarely rests and takes the lock only when
  // `changed_` is set; otherwise the other threads would hardly ever get it.
  std::atomic<bool> changed_{false};
  std::mutex mutex_;  // guards wanted_harms_ and orders_
  std::vector<Harm> wanted_harms_;
  std::vector<Order> orders_;
  Counts counts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_BAD_SWITCH_H_
