// Round-trip estimation and retransmit timeouts. Internal to exchange/; not thread-safe. Times are
// the exchange's `now`, in ns.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_
#define MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace millrace::inline exchange {

// Estimates a duration that few measurements exceed: smoothed mean plus four mean deviations (RFC
// 6298). RFC 6298 assumes one measurement per round trip; of the many in a round, the longest
// counts.
class RttEstimator {
 public:
  void Measured(int64_t ns) { longest_ = std::max(longest_, ns); }
  void EndRound() {
    const int64_t ns = std::exchange(longest_, 0);
    if (mean_ == 0) {
      mean_ = ns;
      deviation_ = ns / 2;
      return;
    }
    deviation_ += ((ns > mean_ ? ns - mean_ : mean_ - ns) - deviation_) >> 2;
    mean_ += (ns - mean_) >> 3;
  }
  int64_t mean() const { return mean_; }
  int64_t value() const { return mean_ + 4 * deviation_; }

 private:
  int64_t mean_ = 0, deviation_ = 0;
  int64_t longest_ = 0;  // longest measurement of this round
};

// Retransmit timeout, from the times that replies take.
class RetransmitTimer {
 public:
  // Adds the reply time `ns`, which ends the backoff. Returns whether it ends a round.
  bool Sample(int64_t now, int64_t ns) {
    doublings_ = 0;
    estimator_.Measured(ns);
    if (!at_end_ && now - round_at_ < std::min(estimator_.mean(), kMaxRoundNs)) return false;
    round_at_ = now;
    estimator_.EndRound();
    return true;
  }
  // Records that a frame timed out for the first time. Doubles the timeout (RFC 6298, 5.5), at most
  // once per `pause`. Frames that were sent twice give no measurement, so until another frame is
  // answered in time only a longer wait can distinguish a lost frame from a late reply.
  void TimedOut(int64_t now, int64_t pause) {
    if (now - doubled_at_ < pause || doublings_ == kMaxDoublings) return;
    doubled_at_ = now;
    ++doublings_;
  }
  // Ends the backoff after a change of view, as the set of peers has changed.
  void Forgive() { doublings_ = 0; }
  // From now on each sample is a round: little is under way, so that what was measured while all
  // nodes were busy no longer holds.
  void AtEnd() { at_end_ = true; }
  bool at_end() const { return at_end_; }
  // Time that few replies exceed; 0: none came yet.
  int64_t usual() const { return estimator_.value(); }
  // Timeout of the first transmission. `least`: its lower bound before backoff.
  int64_t Timeout(int64_t least) const { return std::max(least, estimator_.value()) << doublings_; }

 private:
  static constexpr int kMaxDoublings = 10;
  // Upper bound on a round, so that one very late reply loses its weight in time.
  static constexpr int64_t kMaxRoundNs = 1'000'000'000;

  RttEstimator estimator_;
  int64_t round_at_ = 0;
  int64_t doubled_at_ = 0;
  int doublings_ = 0;
  bool at_end_ = false;
};

// Loss detection for the diffs sent to one master, as RFC 8985 (RACK-TLP) does for TCP segments. A
// diff is lost if the master has answered another diff that was sent much later. If the master
// answers nothing, it may be stalled or its replies late. Retransmission of all diffs would delay
// it further, so only a few are sent as probes.
class MasterReplies {
 public:
  RetransmitTimer round_trip;

  // Records that the node completed the takeover of a chunk. Diffs sent to it earlier waited for
  // the takeover and do not measure its reply time.
  void BecameMaster(int64_t now) { since_ = now; }
  // Whether a diff that was first sent at `first` measures the reply time.
  bool Measures(int64_t first) const { return first >= since_; }
  // Records the answer to a diff that was first sent at `first` and last sent at `last`.
  // `measures`: false if an earlier answer may have been lost. Returns whether the time since
  // `last` was taken as a reply time. At the end (round_trip), diffs that were sent again measure
  // it, too: where frames are lost, no others come.
  bool RecordReply(int64_t now, int64_t first, int64_t last, bool measures = true) {
    newest_ = std::max(newest_, first);
    if (!Measures(first)) return false;
    const bool sent_again = first != last;
    probes_ = sent_again ? std::min(probes_ + 2, kMaxProbes) : std::min(probes_, kProbes);
    if (!measures || (sent_again && !round_trip.at_end())) return false;
    if (!sent_again) overtaken_.Measured(newest_ - first);
    if (round_trip.Sample(now, now - last) && !sent_again) overtaken_.EndRound();
    return true;
  }
  // How much later than `sent` the newest answered diff was first sent; negative if it was earlier.
  int64_t Overtaken(int64_t sent) const { return newest_ - sent; }
  // Reordering window, at least `least`: by how much later diffs usually overtake one that is not
  // lost.
  int64_t ReorderingWindow(int64_t least) const { return std::max(least, overtaken_.value()); }
  // Takes a probe: returns whether one more diff may be retransmitted without a sign of loss. The
  // allowance is refilled to kProbes after each `pause`.
  bool Probe(int64_t now, int64_t pause) {
    if (now >= probes_at_) {
      probes_ = std::max(probes_, kProbes);
      probes_at_ = now + pause;
    }
    if (probes_ == 0) return false;
    --probes_;
    return true;
  }

 private:
  // Probes allowed at a time. While only retransmitted diffs are answered, few others are in
  // flight: each such answer permits two more probes.
  static constexpr int kProbes = 8, kMaxProbes = 1024;

  RttEstimator overtaken_;
  int64_t newest_ = 0;         // latest first transmission of an answered diff
  int64_t since_ = INT64_MIN;  // time of the last BecameMaster
  int64_t probes_at_ = 0;      // when probes_ is refilled next
  int probes_ = 0;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_
