// Nodes that perform handshakes with each other over a simulated network. A tick is a millisecond.
#ifndef MILLRACE_TEST_SIM_HANDSHAKE_CLUSTER_H_
#define MILLRACE_TEST_SIM_HANDSHAKE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "segment/handshake/handshake.h"
#include "test/sim/network.h"

namespace millrace::sim {

inline constexpr uint64_t kRun = 0x5eed;

// Deterministic random bytes, with a separate stream for each pair of arguments.
RandomBytes SeededRandom(uint64_t node, uint64_t session_id);
// Key of 32 bytes that all have the value `letter`.
SecretKey KeyOf(uint8_t letter);
// Configuration of `node` among `nodes` nodes named a, b, c, ...
HandshakeConfig ConfigOf(NodeId node, size_t nodes, uint32_t incarnation = 1);
uint64_t CountOf(const Handshake& node, DropReason drop);

struct SentHandshake {
  NodeId from = 0, to = 0;  // as addressed: may be kAllNodes
  HandshakeBytes bytes;
};

class HandshakeCluster {
 public:
  explicit HandshakeCluster(size_t nodes, const LinkFaults& faults = {}, uint64_t seed_name = 0);

  // Starts or restarts the node. `key` may be null: no key.
  void Start(const HandshakeConfig& config, const SecretKey* key = nullptr);
  void StartAll(const SecretKey* key = nullptr, bool multicast = false);
  void Stop(NodeId node) { nodes_[node].reset(); }
  Handshake& node(NodeId node) { return *nodes_[node]; }

  // Runs until `done` returns true, at most for `ms`; returns done().
  bool RunUntil(const std::function<bool()>& done, int64_t ms);
  void Run(int64_t ms);
  // All running nodes have established and confirmed sessions with each other.
  bool AllEstablished();
  int64_t now() const { return tick_ * kMs; }

  // Sees each frame as it leaves, if set. It may alter the frame, or return false to drop it.
  std::function<bool(SentHandshake*)> tamper;
  // All frames sent, in order.
  const std::vector<SentHandshake>& sent() const { return sent_; }

 private:
  void Step();

  std::vector<std::unique_ptr<Handshake>> nodes_;
  Network network_;
  int64_t tick_ = 0;
  std::vector<SentHandshake> sent_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_HANDSHAKE_CLUSTER_H_
