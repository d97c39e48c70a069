// Order in which a throttled master sends its chunks: chunks with large progress more often.
//
// A chunk whose weights change by rate r per second and that is sent every t seconds has a mean
// error of r t / 2. Under a bound on the frames per second, the sum of these errors over all chunks
// is minimal with t proportional to 1 / sqrt(r) (Lagrange: the derivative of r t + q / t with
// respect to t is 0). So in its rounds over the chunks, a master sends a chunk whose rate is a
// fraction p of the largest rate with frequency sqrt(p), and at least once in kMaxRounds rounds.
//
// Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_
#define MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::inline exchange {

class SendPriority {
 public:
  static constexpr float kMaxRounds = 4;
  // Upper bound on a chunk's magnitudes, so that rates and their quotients are finite. Larger
  // progress is of no use to anybody, and is forgotten within some hundred rounds.
  static constexpr float kMaxMagnitude = 1e12f;

  // Starts with `chunks` rows, all with the same priority until progress is known.
  void Reset(size_t chunks) {
    rows_.assign(chunks, {});
    largest_ = largest_now_ = 0;
  }
  // Records that a diff with mean magnitude `magnitude` was merged into the chunk of `row`.
  void Merged(size_t row, float magnitude) {
    float& merged = rows_[row].merged;
    // The first comparison is false for NaN, too.
    merged =
        magnitude < kMaxMagnitude ? std::min(merged + magnitude, kMaxMagnitude) : kMaxMagnitude;
  }
  // Call once per round for a chunk that could be sent: returns whether to send it in this round.
  bool IsTurn(size_t row) {
    Row& r = rows_[row];
    r.credit = std::min(r.credit + Weight(r), 1.0f);
    return r.credit >= kWhole;
  }
  // Records that the chunk is sent, `elapsed_ns` after its previous transmission.
  void Sent(size_t row, int64_t elapsed_ns) {
    Row& r = rows_[row];
    r.credit = 0;
    const float rate = r.merged / static_cast<float>(std::max<int64_t>(elapsed_ns, 1));
    r.rate += kNew * (rate - r.rate);
    r.merged = 0;
    largest_now_ = std::max(largest_now_, r.rate);
  }
  // Ends a round over all chunks.
  void EndRound() {
    largest_ = std::max(largest_now_, kKept * largest_);
    largest_now_ = 0;
  }

 private:
  static constexpr float kNew = 0.25f, kKept = 0.9f;
  // Credit at which a chunk is sent. Below 1, so that a rounding error does not halve the frequency
  // of a chunk whose rate equals the largest.
  static constexpr float kWhole = 0.999f;

  struct Row {
    float merged = 0;  // sum of magnitudes since the last transmission
    float rate = 0;    // magnitude per ns, smoothed
    float credit = 0;  // at kWhole the chunk is sent
  };
  float Weight(const Row& row) const {
    if (!(largest_ > 0)) return 1;
    return std::clamp(std::sqrt(row.rate / largest_), 1 / kMaxRounds, 1.0f);
  }

  std::vector<Row> rows_;
  float largest_ = 0;      // largest rate of all chunks
  float largest_now_ = 0;  // largest rate of the chunks sent in this round
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_SEND_PRIORITY_H_
