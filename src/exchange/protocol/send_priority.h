// Which chunks a master sends where not all can be sent: those first in which progress is large.
//
// A chunk whose weights change by rate r per second and that is sent every t seconds is wrong by
// r t / 2 on average. Under a bound on the frames sent per second, the sum of these errors over all
// chunks is least with t proportional to 1 / sqrt(r) (Lagrange: the derivative of r t + q / t with
// respect to t is 0). So in each round over its chunks a master sends a chunk of which the rate is
// a part p of the largest with frequency sqrt(p), at least in one round of kMostRounds.
//
// Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_
#define MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

class SendPriority {
 public:
  static constexpr float kMostRounds = 4;

  // All chunks count alike until progress is known.
  void Reset(size_t chunks) {
    rows_.assign(chunks, {});
    largest_ = largest_now_ = 0;
  }
  // Progress whose mean magnitude is `magnitude` was merged into the chunk `row`.
  void Merged(size_t row, float magnitude) { rows_[row].merged += magnitude; }
  // The chunk has come up in a round: whether it is to be sent in this one.
  bool IsTurn(size_t row) {
    Row& r = rows_[row];
    r.credit = std::min(r.credit + Weight(r), 1.0f);
    return r.credit >= 1;
  }
  // It is sent, `elapsed_ns` after it was sent last.
  void Sent(size_t row, int64_t elapsed_ns) {
    Row& r = rows_[row];
    r.credit = 0;
    const float rate = r.merged / static_cast<float>(std::max<int64_t>(elapsed_ns, 1));
    r.rate += kNew * (rate - r.rate);
    r.merged = 0;
    largest_now_ = std::max(largest_now_, r.rate);
  }
  // A round has ended.
  void EndRound() {
    largest_ = std::max(largest_now_, kKept * largest_);
    largest_now_ = 0;
  }

 private:
  static constexpr float kNew = 0.25f, kKept = 0.9f;

  struct Row {
    float merged = 0;  // since it was sent last
    float rate = 0;    // per ns, smoothed
    float credit = 0;  // of a turn
  };
  float Weight(const Row& row) const {
    if (!(largest_ > 0)) return 1;
    return std::clamp(std::sqrt(row.rate / largest_), 1 / kMostRounds, 1.0f);
  }

  std::vector<Row> rows_;
  float largest_ = 0;      // rate of all chunks
  float largest_now_ = 0;  // of those sent in this round
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_
