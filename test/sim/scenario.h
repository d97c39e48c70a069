// Parameters of one simulated run: a plain value drawn from a seed. It can be written as text,
// parsed and reduced.
#ifndef MILLRACE_TEST_SIM_SCENARIO_H_
#define MILLRACE_TEST_SIM_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/codec_config.h"
#include "test/sim/network.h"

namespace millrace::sim {

// A fault of a node or link at a given tick.
struct Event {
  enum class Kind {
    kCrash,      // the node loses its memory
    kRestart,    // starts a node that crashed, left, or has not started yet
    kLeave,      // the node leaves gracefully
    kDemote,     // the node freezes for `ticks`, then continues as before
    kPartition,  // for `ticks`, no frames pass between nodes whose bits in `mask` differ
    kBreak,      // for `ticks`, nodes whose bit in `mask` is set receive no frames from the node
    kBlackHole,  // the same, for the node's largest frames only
    kClockBack,  // as kRestart, with a smaller incarnation than any that the node had
  };
  Kind kind = Kind::kCrash;
  int64_t at = 0;  // tick
  uint16_t node = 0;
  int64_t ticks = 0;
  uint64_t mask = 0;
  bool operator==(const Event&) const = default;
};

struct Scenario {
  uint64_t seed = 0;
  uint16_t nodes = 2;
  uint16_t late = 0;  // nodes that do not start at tick 0: those with the highest ids
  int chunks = 6;
  Codec codec = Codec::kFloat32;
  SparseChoice choice = SparseChoice::kThreshold;  // of kSparse, as are the next two
  float threshold = 3;
  double share = 1;
  // All but kFloat32 round what other nodes see until training ends with Exchange::Flush; kSparse
  // also leaves out what has changed less.
  Codec position_codec = Codec::kFloat32;
  double position_share = kPositionShare;
  bool direct = false;   // payloads are sent from the weights themselves, without a copy
  int64_t linger = 0;    // maximum ticks from posting a frame to reading its payload
  double wild = 0;       // probability per tick that a solver writes while it must not train
  int64_t active = 300;  // ticks in which solvers make progress
  double busy = 0.5;     // probability per tick that a solver makes a step
  uint32_t slots = 64;
  double throttled = 0;   // share of the time in which a node sends only what it must
  bool damping = false;   // stale progress is damped; training ends with Exchange::Flush
  double pauses = 0;      // share of the time in which a node's solver makes no step
  int64_t view_cost = 0;  // maximum ticks for which a node stands still after it changed its view
  int64_t magnitude = 1;  // the progress of every second node, in tokens per token of the others
  // Masters merge their own progress as diffs, by a rule that adds.
  bool merges_own = false;
  bool momentum = false;  // masters merge with a rule that has a state (outer, with momentum)
  // Counters begin near their limits, and pass them where they can: incarnations, a node's clock,
  // numbers of positions and of diffs.
  bool near_limits = false;
  LinkFaults faults;
  std::vector<Event> events;

  bool operator==(const Scenario&) const = default;
  bool Has(Event::Kind kind) const;
  CodecConfig codec_config() const;
  // The largest progress that may stay unsent.
  float unsent() const { return HasThreshold(codec_config()) ? threshold : 0; }
  // Returns true if a link is still broken when the solvers have stopped.
  bool stays_broken() const;
};

// Draws the scenario of a seed.
Scenario Draw(uint64_t seed);

// Text form without blanks, and its parser. Parse throws millrace::Error.
std::string ToText(const Scenario& scenario);
Scenario Parse(const std::string& text);

// Reduced scenarios, most promising first.
std::vector<Scenario> Smaller(const Scenario& scenario);

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SCENARIO_H_
