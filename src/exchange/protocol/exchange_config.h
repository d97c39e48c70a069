// Settings and counters of an exchange.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_
#define MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_

#include <array>
#include <cstdint>

#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/frame.h"

namespace millrace::inline exchange {

struct ExchangeConfig {
  uint64_t run = 0;        // equal on all nodes of a run, different between runs
  uint16_t node = 0;       // id of this node, unique and below max_nodes
  uint16_t max_nodes = 2;  // equal on all nodes; at most kMaxNodes
  // Maximum number of members at a time; bounds the size of heartbeats. Equal on all nodes.
  // 0: max_nodes.
  uint16_t max_members = 0;
  uint32_t incarnation = 1;  // larger on each start of this node
  CodecConfig codec;         // for the diffs that this node sends
  // For the positions that this node sends before Flush. Other nodes then have rounded weights of
  // its chunks, and after Flush exact ones. kSparse: changes (position_changes.h) of
  // `position_share` of a chunk's elements, above 0 and at most 1; equal on all nodes.
  Codec position_codec = Codec::kFloat32;
  double position_share = kPositionShare;
  bool damping = false;  // takes a smaller share of stale progress (damping.h)
  // With damping: takes all progress after Flush. For a node that forwards to this segment the
  // progress that another exchange of the same weights receives.
  bool passes_all_on = false;
  // Whether the merge rule merges a master's own progress as a diff (kMergesOwn, merge_rule.h).
  // Progress that a node makes while it is the only member counts in full nevertheless.
  bool merges_own = false;
  // Examples that one iteration of this node trains on. With merges_own, the share of each member's
  // progress that masters merge is that of its examples. 0: unknown, and all shares are equal.
  uint32_t examples = 0;
  // Largest |w - base| of a worker at rest, by the merge rule (MergeRuleDescriptor::rest_distance).
  // Above 0, Flush drops what remains there, unless the node passes all on.
  float rest_distance = 0;

  // Bytes that this node's link carries per second, in each direction; 0: unknown, or plenty.
  double bytes_per_second = 0;

  int64_t heartbeat_ns = 100'000'000;  // longer on slow links: Exchange::heartbeat_ns
  int64_t peer_timeout_ns = 2'000'000'000;
  int64_t bootstrap_after_ns = 1'000'000'000;  // see MembershipConfig, as for the next two
  bool sole_bootstrapper = false;
  bool bootstraps_when_allowed = false;

  // Minimum time before an unanswered frame is sent again; doubles with each retry.
  int64_t resend_ns = 20'000'000;
  // A worker sends the diff of a chunk unsolicited if it has received no position for this time.
  int64_t push_after_ns = 5'000'000;

  // Room behind each payload for a trailer that the sender of the frames adds; 0 with `direct`.
  uint32_t trailer_bytes = 0;
  uint32_t slots = 256;  // outgoing frames in flight at a time, at least 8
  // Send float32 positions and float32 diffs directly from the arrays instead of from a copy, for
  // transports with gather. The checksum then leaves out a position's payload, because solvers
  // change it until it is sent.
  bool direct = false;
  // With `direct`: send float32 diffs from a copy nevertheless, because the CPU cannot read them in
  // place to compute their checksum.
  bool copy_diffs = false;
};

inline uint16_t MaxMembers(const ExchangeConfig& config) {
  return config.max_members > 0 ? config.max_members : config.max_nodes;
}

// Counted since construction of the exchange.
struct ExchangeStats {
  std::array<uint64_t, kFrameTypes> sent{};      // frames by FrameType
  std::array<uint64_t, kFrameTypes> received{};  // valid ones, by FrameType
  DropCounts drops;
  uint64_t bytes_sent = 0, bytes_received = 0;
  uint64_t positions_taken = 0;
  uint64_t takeover_states_taken = 0;  // newer positions received in takeovers
  uint64_t diffs_taken = 0;            // made from this node's progress
  uint64_t diffs_damped = 0;           // of these, with the share of stale exchanges (damping.h)
  uint64_t diffs_merged = 0;           // into chunks that this node masters
  uint64_t own_merges = 0;             // of this node's own progress, with merges_own
  uint64_t resends = 0;                // retransmitted diffs
  uint64_t repeats = 0;                // positions sent again with unchanged content
  uint64_t takeovers = 0;              // chunks of which this node became the master
  uint64_t resets = 0;                 // times that this node joined again as a new incarnation

  // Number of times that an operation of the exchange changed this node's weights.
  uint64_t merges() const {
    return positions_taken + takeover_states_taken + diffs_merged + own_merges;
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONFIG_H_
