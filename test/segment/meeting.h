// Nodes that introduce themselves to each other over links in memory that lose,
// duplicate and delay frames, by a clock that tests turn.
#ifndef MILLRACE_TEST_SEGMENT_MEETING_H_
#define MILLRACE_TEST_SEGMENT_MEETING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "segment/introductions.h"

namespace millrace::test {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr uint64_t kRun = 0x5eed;

// As unpredictable as tests need: a stream of its own for each of its names.
RandomBytes SeededRandom(uint64_t node, uint64_t life);
// 32 bytes that `letter` names.
SecretKey KeyOf(uint8_t letter);
// Of node `node` of `nodes` that are called a, b, c ...
IntroductionsConfig ConfigOf(NodeId node, size_t nodes, uint32_t incarnation = 1);

struct Faults {
  double loss = 0, duplicates = 0;
  int64_t delay_ns = kMs, jitter_ns = 0;
};

struct Carried {
  NodeId from = 0, to = 0;  // as addressed: to may be kAllNodes
  IntroductionBytes bytes;
};

class Meeting {
 public:
  explicit Meeting(size_t nodes, Faults faults = {}, uint64_t seed_name = 0);

  // The node starts, or starts again; `key` null: none.
  void Start(const IntroductionsConfig& config, const SecretKey* key = nullptr);
  void StartAll(const SecretKey* key = nullptr, bool multicast = false);
  void Stop(NodeId node) { nodes_[node].reset(); }
  Introductions& node(NodeId node) { return *nodes_[node]; }

  // Runs until `done` or for `ms`; whether it is done.
  bool RunUntil(const std::function<bool()>& done, int64_t ms);
  void Run(int64_t ms);
  // All nodes that are started know each other and have heard so.
  bool AllMet();
  int64_t now() const { return now_; }
  void set_faults(const Faults& faults) { faults_ = faults; }
  // Altered or swallowed (false) as they leave.
  void set_tamper(std::function<bool(Carried*)> tamper) { tamper_ = std::move(tamper); }

  // All that was sent, in order.
  const std::vector<Carried>& sent() const { return sent_; }

 private:
  struct UnderWay {
    int64_t arrives;
    NodeId to;
    Carried frame;
  };
  void Step();
  void Carry(const Carried& frame);

  std::vector<std::unique_ptr<Introductions>> nodes_;
  Faults faults_;
  Rng rng_;
  int64_t now_ = 0;
  std::vector<UnderWay> under_way_;
  std::vector<Carried> sent_;
  std::function<bool(Carried*)> tamper_;
};

uint64_t CountOf(const Introductions& node, IntroDrop drop);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SEGMENT_MEETING_H_
