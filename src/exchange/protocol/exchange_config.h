// The settings of an exchange, and what it counts.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_
#define MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_

#include <array>
#include <cstdint>

#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/frame.h"

namespace millrace {

struct ExchangeConfig {
  uint64_t run = 0;        // equal on all nodes of a run, different between runs
  uint16_t node = 0;       // this one; each node has its own, below max_nodes
  uint16_t max_nodes = 2;  // equal on all nodes; at most kMaxNodes
  // Of these, how many there are at most at once; what heartbeats have room for. Equal on
  // all nodes. 0: max_nodes.
  uint16_t max_members = 0;
  uint32_t incarnation = 1;  // larger each time that this node is started
  CodecConfig codec;         // of the diffs that this node sends
  bool damping = false;      // takes less of stale progress at once (damping.h)
  // With damping: after Flush takes all the same. For a node that passes on, to the others of a
  // segment, what another exchange of the same weights brings.
  bool passes_all_on = false;

  int64_t heartbeat_ns = 100'000'000;
  int64_t peer_timeout_ns = 2'000'000'000;
  int64_t bootstrap_after_ns = 1'000'000'000;  // see MembershipConfig, as the next
  bool sole_bootstrapper = false;
  bool bootstraps_when_allowed = false;

  // What was not answered is sent again after this long at the soonest; twice as long each time.
  int64_t resend_ns = 20'000'000;
  // A chunk with progress that has had no position for so long sends its diff
  // unasked.
  int64_t push_after_ns = 5'000'000;

  // Room behind each payload for whoever transmits the frames; not with `direct`.
  uint32_t trailer_bytes = 0;
  uint32_t slots = 256;  // frames that may be under way out of this node at once; >= 8
  // Send positions and float32 diffs from where they are, instead of from a
  // copy: for transports that gather. A position's payload is then left out of the
  // checksum, because solvers change it meanwhile.
  bool direct = false;
  // With `direct`: float32 diffs are sent from a copy all the same, because the processor
  // cannot read them where they are, and a diff has a checksum.
  bool copy_diffs = false;
};

inline uint16_t MaxMembers(const ExchangeConfig& config) {
  return config.max_members > 0 ? config.max_members : config.max_nodes;
}

// Counted since the exchange was made.
struct ExchangeStats {
  std::array<uint64_t, 16> sent{};      // frames by FrameType
  std::array<uint64_t, 16> received{};  // valid ones, by FrameType
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};
  uint64_t bytes_sent = 0, bytes_received = 0;
  uint64_t positions_taken = 0;
  uint64_t takeover_states_taken = 0;  // newer positions that members returned in a takeover
  uint64_t diffs_taken = 0;            // made from this node's progress
  uint64_t diffs_damped = 0;           // of these, less than all that there was to send (damping.h)
  uint64_t diffs_merged = 0;           // into chunks that this node masters
  uint64_t resends = 0;                // of diffs
  uint64_t repeats = 0;                // of positions that hold nothing new
  uint64_t takeovers = 0;              // chunks that this node has become master of
  uint64_t resets = 0;                 // times that it had to begin anew

  // Times that others' progress came into this node's weights.
  uint64_t merges() const { return positions_taken + takeover_states_taken + diffs_merged; }
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_
