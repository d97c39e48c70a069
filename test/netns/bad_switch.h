// A switch that harms what passes through it, in place of the bridge of a Network: it
// loses, duplicates, reorders and damages frames at random, by a seed. Needs no more of the
// kernel than the network itself does.
//
// Damage and checksums: between a pair of veth devices the kernel leaves checksums of UDP
// to a device that never computes them, so a damaged packet would pass for a good one. The
// switch turns that off: machines send packets with checksums, no longer than the MTU, and
// the receiving kernel checks each. What is damaged then never reaches the program: the
// kernel drops and counts it. Damage that happens where a checksum is made anew (in a
// router's memory, say) is not found so; the switch plays that by taking the checksum out.
// Raw Ethernet has a checksum on wires only, not here: all damage to it arrives.
#ifndef MILLRACE_TEST_NETNS_BAD_SWITCH_H_
#define MILLRACE_TEST_NETNS_BAD_SWITCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/rng.h"
#include "test/netns/network.h"

namespace millrace::test {

// Shares of the frames, from 0 to 1. Only frames of UDP over IPv4 and of the packet
// transport are harmed.
struct Harm {
  double lose = 0;
  double duplicate = 0;  // comes twice, the second time right behind the first
  double reorder = 0;    // is overtaken by up to 32 others
  double damage = 0;     // one byte behind the headers of Ethernet, IP and UDP is another
};

class BadSwitch {
 public:
  // How many frames met what. Any thread may read them at any time.
  struct Counts {
    std::atomic<uint64_t> passed{0}, lost{0}, duplicated{0}, reordered{0};
    std::atomic<uint64_t> damaged{0};  // and the receiving kernel can tell
    std::atomic<uint64_t> damaged_unseen{0};
  };

  // `network` has a bridge (three machines or more), which is out of use from now on, and
  // outlives the switch. Throws Error if a step fails.
  BadSwitch(const Network& network, const Harm& harm, uint64_t seed);
  ~BadSwitch();
  BadSwitch(const BadSwitch&) = delete;
  BadSwitch& operator=(const BadSwitch&) = delete;

  const Counts& counts() const { return counts_; }

 private:
  using Frame = std::vector<uint8_t>;
  struct Held {
    Frame frame;
    size_t from;
    int passes;  // that may still overtake it
  };

  void Pass();  // the thread
  void Read(size_t port);
  void Harass(Frame frame, size_t from);
  void Damage(Frame* frame, size_t begin);
  void Send(const Frame& frame, size_t from);
  void SendHeld(bool all);
  bool Falls(double share) { return rng_.Uniform() < share; }

  const Network& network_;
  const Harm harm_;
  Rng rng_;
  std::vector<FileDescriptor> ports_;  // a raw socket each
  std::deque<Held> held_;
  Counts counts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_BAD_SWITCH_H_
