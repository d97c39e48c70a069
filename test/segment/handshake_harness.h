// Nodes that perform handshakes with each other over bad links.
#ifndef MILLRACE_TEST_SEGMENT_HANDSHAKE_HARNESS_H_
#define MILLRACE_TEST_SEGMENT_HANDSHAKE_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "segment/handshake/handshake.h"
#include "test/segment/bad_links.h"

namespace millrace::test {

inline constexpr uint64_t kRun = 0x5eed;

// Deterministic random bytes, with a separate stream for each pair of arguments.
RandomBytes SeededRandom(uint64_t node, uint64_t session_id);
// Key of 32 bytes that all have the value `letter`.
SecretKey KeyOf(uint8_t letter);
// Configuration of `node` among `nodes` nodes named a, b, c, ...
HandshakeConfig ConfigOf(NodeId node, size_t nodes, uint32_t incarnation = 1);

struct Carried {
  NodeId from = 0, to = 0;  // as addressed: may be kAllNodes
  HandshakeBytes bytes;
};

class HandshakeHarness {
 public:
  explicit HandshakeHarness(size_t nodes, Faults faults = {}, uint64_t seed_name = 0);

  // Starts or restarts the node. `key` may be null: no key.
  void Start(const HandshakeConfig& config, const SecretKey* key = nullptr);
  void StartAll(const SecretKey* key = nullptr, bool multicast = false);
  void Stop(NodeId node) { nodes_[node].reset(); }
  Handshake& node(NodeId node) { return *nodes_[node]; }

  // Runs until `done` returns true, at most for `ms`; returns done().
  bool RunUntil(const std::function<bool()>& done, int64_t ms);
  void Run(int64_t ms);
  // All running nodes have established and confirmed sessions with each other.
  bool AllMet();
  int64_t now() const { return now_; }
  void set_faults(const Faults& faults) { links_.set_faults(faults); }
  // `tamper` sees each frame as it leaves. It may alter the frame, or return false to drop it.
  void set_tamper(std::function<bool(Carried*)> tamper) { tamper_ = std::move(tamper); }

  // All frames sent, in order.
  const std::vector<Carried>& sent() const { return sent_; }

 private:
  struct Delivery {
    NodeId to;
    Carried frame;
  };
  void Step();
  void Carry(const Carried& frame);

  std::vector<std::unique_ptr<Handshake>> nodes_;
  BadLinks<Delivery> links_;
  int64_t now_ = 0;
  std::vector<Carried> sent_;
  std::function<bool(Carried*)> tamper_;
};

uint64_t CountOf(const Handshake& node, DropReason drop);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SEGMENT_HANDSHAKE_HARNESS_H_
