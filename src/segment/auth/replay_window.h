// Which numbers of a stream were seen already: of the last 4,096 exactly, of those before
// not at all. Not thread-safe.
#ifndef MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_
#define MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {

class ReplayWindow {
 public:
  static constexpr uint64_t kNumbers = 4096;

  // Too far behind the newest to be told from a repeat. No stream uses the number 0.
  bool Old(uint64_t number) const {
    return number == 0 || (number <= newest_ && newest_ - number >= kNumbers);
  }
  // Of a number that is not old.
  bool Seen(uint64_t number) const {
    return number <= newest_ && (words_[Word(number)] >> (number % 64) & 1) != 0;
  }
  // A number that is not old was seen.
  void Mark(uint64_t number) {
    if (number > newest_) {
      // The places between were those of numbers that are old from now on.
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

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_AUTH_REPLAY_WINDOW_H_
