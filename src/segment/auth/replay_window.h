// Replay window (RFC 4303): remembers which of the last 4,096 sequence numbers were received. Not
// thread-safe.
#ifndef MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_
#define MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace::inline segment {

class ReplayWindow {
 public:
  static constexpr uint64_t kNumbers = 4096;

  // Too far behind the newest number to detect a replay, or 0, which no stream uses.
  bool Old(uint64_t number) const {
    return number == 0 || (number <= newest_ && newest_ - number >= kNumbers);
  }
  // Whether `number`, which is not old, was received.
  bool Seen(uint64_t number) const {
    return number <= newest_ && (words_[Word(number)] >> (number % 64) & 1) != 0;
  }
  // Records `number`, which is not old, as received.
  void Mark(uint64_t number) {
    if (number > newest_) {
      // Clears the bits in between: they belong to numbers that are old now.
      if (number - newest_ >= kNumbers) {
        words_.fill(0);
      } else {
        for (uint64_t n = newest_ + 1; n <= number; ++n) words_[Word(n)] &= ~(1ull << (n % 64));
      }
      newest_ = number;
    }
    words_[Word(number)] |= 1ull << (number % 64);
  }

 private:
  static size_t Word(uint64_t number) { return number / 64 % (kNumbers / 64); }

  uint64_t newest_ = 0;
  std::array<uint64_t, kNumbers / 64> words_{};
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_
