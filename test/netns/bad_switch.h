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
  // Frames longer than this, Ethernet's header included, vanish without a word; 0: none do.
  size_t most_bytes = 0;
  bool cut = false;  // nothing passes, frames of other protocols included
};

// Frames as a hostile machine on the network would send them. They have the headers of a frame
// that the switch has carried, so they seem to come from a node and reach another.
enum class Forgery {
  kRandom,     // random bytes, at most as many as the frame had
  kReplay,     // the whole frame once more, however old it is
  kTruncated,  // the frame without its end; lengths and checksums of the headers fit
};

class BadSwitch {
 public:
  // How many frames met what. Any thread may read them at any time.
  struct Counts {
    std::atomic<uint64_t> passed{0}, lost{0}, duplicated{0}, reordered{0};
    std::atomic<uint64_t> damaged{0};  // and the receiving kernel can tell
    std::atomic<uint64_t> damaged_unseen{0};
    std::atomic<uint64_t> too_long{0}, cut{0}, forged{0};
  };

  // `network` has a bridge (three machines or more), which is out of use from now on, and
  // outlives the switch. Throws Error if a step fails.
  BadSwitch(const Network& network, const Harm& harm, uint64_t seed);
  ~BadSwitch();
  BadSwitch(const BadSwitch&) = delete;
  BadSwitch& operator=(const BadSwitch&) = delete;

  const Counts& counts() const { return counts_; }

  // From now on, of what machine `from` sends to `to`. Any thread may call it.
  void SetHarm(int from, int to, const Harm& harm);
  // Sends so many forged frames soon; none before it has carried any. Any thread may call it.
  void Forge(Forgery kind, int frames);

 private:
  using Frame = std::vector<uint8_t>;
  struct Held {
    Frame frame;
    size_t to;
    int passes;  // that may still overtake it
  };
  struct Carried {
    Frame frame;
    size_t to;
  };
  struct Order {
    Forgery kind;
    int frames;
  };

  void Pass();  // the thread
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
  std::vector<FileDescriptor> ports_;  // a raw socket each
  std::deque<Held> held_;
  std::vector<Carried> carried_;  // some of all frames so far, for forgeries
  uint64_t seen_ = 0;             // frames that could have got into carried_
  std::vector<Harm> harms_;       // by sender and receiver
  // What other threads want. The switch's thread, which rarely rests, takes the lock only when
  // something has changed: they would hardly ever get it otherwise.
  std::atomic<bool> changed_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<Harm> wanted_harms_;
  std::vector<Order> orders_;
  Counts counts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_BAD_SWITCH_H_
