#include "exchange/kernels/sparse_choice.h"

namespace millrace::inline exchange {
namespace {

// Key of rank `rank` (1: the largest), and the number of elements with larger keys.
struct Cut {
  int32_t key = 0;
  int64_t above = 0;
};

// Radix selection: one pass for each digit, from the highest.
Cut FindCut(const ChoiceWord* keys, int64_t count, int64_t rank) {
  constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
  Cut cut;
  int32_t known = 0;  // bits of the key that have been found
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    int64_t counts[kDigits] = {};
    for (int64_t i = 0; i < count; ++i) {
      if ((keys[i] & known) == cut.key) ++counts[keys[i] >> shift & (kDigits - 1)];
    }
    int digit = kDigits - 1;
    for (; digit > 0 && cut.above + counts[digit] < rank; --digit) cut.above += counts[digit];
    cut.key |= digit << shift;
    known |= static_cast<int32_t>(static_cast<uint32_t>(kDigits - 1) << shift);
  }
  return cut;
}

}  // namespace

int64_t ChooseElements(SparseChoice choice, double share, uint32_t seed, int64_t count,
                       ChoiceWord* magnitudes) {
  if (choice == SparseChoice::kRandom) {
    for (int64_t i = 0; i < count; ++i) {
      magnitudes[i] = ChoiceKey(choice, seed, i, magnitudes[i]);
    }
  }
  const int64_t most = ChosenCount(share, count);
  const Cut cut = FindCut(magnitudes, count, most);
  int64_t chosen = 0, ties = most - cut.above;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = magnitudes[i];
    const bool is_tie = key == cut.key && key != 0 && ties > 0;
    const bool is_chosen = key > cut.key || is_tie;
    ties -= is_tie;
    chosen += is_chosen;
    magnitudes[i] = -static_cast<int32_t>(is_chosen);
  }
  return chosen;
}

}  // namespace millrace::inline exchange
