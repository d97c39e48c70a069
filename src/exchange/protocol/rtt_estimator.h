// How long answers take, and how long to wait for one before something is sent again.
// Internal to exchange/; not thread-safe. Times are those of the exchange's `now`, in ns.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_
#define MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace millrace {

// A time after which few of the times measured are left (RFC 6298: smoothed mean plus four
// deviations). That is meant for one measurement a round trip; of the many answers in one,
// the longest is it.
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
  int64_t longest_ = 0;  // of this round
};

// How long answers take.
class RetransmitTimer {
 public:
  // Returns whether that ends a round.
  bool Sample(int64_t now, int64_t ns) {
    doublings_ = 0;
    usual_.Measured(ns);
    if (now - round_at_ < std::min(usual_.mean(), kMostRoundNs)) return false;
    round_at_ = now;
    usual_.EndRound();
    return true;
  }
  // Something was given up waiting for, for the first time. Until something else is
  // answered in time, waiting longer is all that can tell a lost frame from a slow answer
  // (RFC 6298, 5.5): what was sent twice measures nothing.
  void TimedOut(int64_t now, int64_t pause) {
    if (now - doubled_at_ < pause || doublings_ == kMostDoublings) return;
    doubled_at_ = now;
    ++doublings_;
  }
  // There are others to wait for.
  void Forgive() { doublings_ = 0; }
  // Of waiting for something the first time; `least` is the shortest for a good link.
  int64_t Timeout(int64_t least) const { return std::max(least, usual_.value()) << doublings_; }

 private:
  static constexpr int kMostDoublings = 10;
  // Rounds are not longer, so that one very late answer is forgotten in time.
  static constexpr int64_t kMostRoundNs = 1'000'000'000;

  RttEstimator usual_;
  int64_t round_at_ = 0;
  int64_t doubled_at_ = 0;
  int doublings_ = 0;
};

// What a master's answers tell of the diffs that it has not answered. One that was
// sent long before another one that is answered is lost; where nothing is answered, the
// master may be away, or its answers late, and to send all again would only make it later:
// a few are sent to see (RFC 8985 does so for segments of TCP).
class MasterReplies {
 public:
  RetransmitTimer round_trip;

  // It has become master of a chunk, after this node began to send it diffs of that: what
  // was sent before waited for this, which says nothing of how long answers take.
  void BecameMaster(int64_t now) { since_ = now; }
  // Whether what was sent at `first` measures how long its answers take.
  bool Measures(int64_t first) const { return first >= since_; }
  // A diff that was sent at `first`, and again, if at all, at `last`.
  void Answered(int64_t now, int64_t first, int64_t last) {
    newest_ = std::max(newest_, first);
    if (!Measures(first)) return;
    if (first != last) {
      probes_ = std::min(probes_ + 2, kMostProbes);
      return;
    }
    probes_ = std::min(probes_, kProbes);
    overtaken_.Measured(newest_ - first);
    if (round_trip.Sample(now, now - first)) overtaken_.EndRound();
  }
  // How much later those were sent at most that are answered and overtook the one sent at
  // `sent`.
  int64_t Overtaken(int64_t sent) const { return newest_ - sent; }
  // By how much one is overtaken that is not lost.
  int64_t UsuallyOvertaken(int64_t least) const { return std::max(least, overtaken_.value()); }
  // Whether one more may be sent again without a sign that it is lost; `pause` is the time
  // after which there may be a few more.
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
  // At a time. Where only what was tried is answered, there is little else under way: three
  // times as many after each round trip.
  static constexpr int kProbes = 8, kMostProbes = 1024;

  RttEstimator overtaken_;
  int64_t newest_ = 0;         // when what is answered was sent
  int64_t since_ = INT64_MIN;  // BecameMaster
  int64_t probes_at_ = 0;
  int probes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_RTT_ESTIMATOR_H_
