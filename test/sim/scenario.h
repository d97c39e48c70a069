// What happens in one simulated run: a plain value, drawn from a seed, that can be
// written as text, read back, and made smaller.
#ifndef MILLRACE_TEST_SIM_SCENARIO_H_
#define MILLRACE_TEST_SIM_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::sim {

// Something that befalls a node, or a link, at a time.
struct Event {
  enum class Kind {
    kCrash,      // the node's memory is gone
    kRestart,    // a crashed or left node, or one that has not started, starts
    kLeave,      // asks to go
    kDemote,     // stands still for `ticks`, and goes on as if nothing had happened
    kPartition,  // for `ticks`, nodes whose bit in `mask` differs do not hear each other
    kBreak,      // for `ticks`, those whose bit in `mask` is set do not hear the node
    kBlackHole,  // the same, of its largest frames only
    kClockBack,  // as kRestart, but with a smaller incarnation than the node ever had
  };
  Kind kind = Kind::kCrash;
  int64_t at = 0;  // tick
  uint16_t node = 0;
  int64_t ticks = 0;
  uint64_t mask = 0;
  bool operator==(const Event&) const = default;
};

// How all links treat frames; probabilities are for each frame and receiver.
struct LinkFaults {
  double loss = 0;
  double duplicate = 0;
  double corrupt = 0;
  int64_t delay_min = 1, delay_max = 1;  // ticks; a spread reorders
  int64_t rate = 64;                     // frames that a node may put on the wire in a tick
  int64_t queue = 4096;                  // frames that wait for a frozen receiver
  bool operator==(const LinkFaults&) const = default;
};

struct Scenario {
  uint64_t seed = 0;
  uint16_t nodes = 2;
  uint16_t late = 0;  // nodes that do not start at tick 0, the last ones
  int chunks = 6;
  Codec codec = Codec::kFloat32;
  float threshold = 3;
  bool direct = false;   // payloads are sent from where they are
  int64_t linger = 0;    // ticks that a frame waits at most in its transport before it is read
  double wild = 0;       // chance that a solver writes in a tick in which it may not train
  int64_t active = 300;  // ticks in which solvers make progress
  double busy = 0.5;     // chance that a solver makes a step in a tick
  uint32_t slots = 64;
  double throttled = 0;  // share of the time in which a node sends no more than it must
  bool damping = false;  // stale progress is damped; training ends with Exchange::Flush
  LinkFaults faults;
  std::vector<Event> events;

  bool operator==(const Scenario&) const = default;
  bool Has(Event::Kind kind) const;
  // Some link is still broken when the solvers have stopped.
  bool stays_broken() const;
};

// The scenario of a seed.
Scenario Draw(uint64_t seed);

// As text without blanks, and back. Parse throws millrace::Error.
std::string ToText(const Scenario& scenario);
Scenario Parse(const std::string& text);

// Simpler scenarios, most promising first.
std::vector<Scenario> Smaller(const Scenario& scenario);

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SCENARIO_H_
