#include "metrics/axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/error.h"

namespace millrace {
namespace {

// Uses to_chars, which does not depend on the locale.
std::string Fixed(double value, int decimals) {
  char text[400];
  const auto end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, decimals);
  return std::string(text, end.ptr);
}

std::string Scientific(double value) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, 0);
  return std::string(text, end.ptr);
}

std::string TwoDigits(long long value) { return StrCat(value < 10 ? "0" : "", value); }

// The number of decimals of a multiple of 10^exponent.
int Decimals(int exponent) { return std::max(0, -exponent); }

}  // namespace

std::string GroupedText(long long value) {
  std::string text = StrCat(value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string NumberText(double value, int decimals) {
  const double magnitude = std::abs(value);
  if (value != 0 && (magnitude < 0.9e-4 || magnitude >= 1e15)) return Scientific(value);
  if (decimals == 0) return GroupedText(std::llround(value));
  return Fixed(value, decimals);
}

Axis Axis::Linear(double low, double high) { return Axis(low, high, false); }
Axis Axis::Logarithmic(double low, double high) { return Axis(low, high, true); }

Axis::Axis(double low, double high, bool logarithmic)
    : low_(std::min(low, high)), high_(std::max(low, high)), logarithmic_(logarithmic) {
  // Ends that a figure cannot distinguish would put all values at one place.
  const double middle = (low_ + high_) / 2;
  if (high_ - low_ <= 1e-9 * std::abs(middle) || high_ == low_) {
    const double around = middle == 0 ? 1 : 0.1 * std::abs(middle);
    low_ = middle - around;
    high_ = middle + around;
  }
  if (!logarithmic_ || !AddDecadeTicks()) AddRoundTicks();
}

double Axis::Fraction(double value) const {
  if (!logarithmic_) return (value - low_) / (high_ - low_);
  if (!(value > 0)) return -1e6;
  return std::log(value / low_) / std::log(high_ / low_);
}

// Adds ticks at multiples of 1, 2 or 5 times a power of ten.
void Axis::AddRoundTicks() {
  const double rough = (high_ - low_) / 6;
  int exponent = static_cast<int>(std::floor(std::log10(rough)));
  double step = std::pow(10.0, exponent);
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * std::pow(10.0, exponent) < rough && factor < 10) continue;
    step = factor * std::pow(10.0, exponent);
    if (factor == 10) ++exponent;
    break;
  }
  ticks_.clear();
  const double slack = 1e-9 * (high_ - low_);
  const double first = std::ceil((low_ - slack) / step);
  for (int i = 0; i < 20; ++i) {
    const double value = (first + i) * step;
    if (value > high_ + slack) break;
    const double shown = std::abs(value) < step / 2 ? 0 : value;
    ticks_.push_back({shown, NumberText(shown, Decimals(exponent))});
  }
}

// Adds ticks at powers of ten, or at 1, 2 and 5 times them, or at all digits times them: the first
// of these that gives at least three. Returns false if the axis is too short for all of them.
bool Axis::AddDecadeTicks() {
  using Digits = std::initializer_list<int>;
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const int last = static_cast<int>(std::ceil(std::log10(high_)));
  const auto shown = [this](double value) {
    return value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9);
  };
  const int stride = std::max(1, (last - first) / 6);
  for (const Digits& digits : {Digits{1}, Digits{1, 2, 5}, Digits{1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
    ticks_.clear();
    for (int exponent = first; exponent <= last; ++exponent) {
      if (digits.size() == 1 && exponent % stride != 0) continue;
      for (int digit : digits) {
        const double value = digit * std::pow(10.0, exponent);
        if (shown(value)) ticks_.push_back({value, NumberText(value, Decimals(exponent))});
      }
    }
    if (ticks_.size() >= 3) break;
  }
  for (int exponent = first; exponent <= last && last - first <= 8; ++exponent) {
    for (int digit = 2; digit <= 9; ++digit) {
      const double value = digit * std::pow(10.0, exponent);
      if (shown(value)) minor_.push_back(value);
    }
  }
  return ticks_.size() >= 3;
}

TimeUnit UnitFor(double seconds) {
  if (seconds < 300) return {"s", 1};
  if (seconds < 3 * 3600) return {"min", 60};
  if (seconds < 3 * 86400) return {"h", 3600};
  return {"days", 86400};
}

std::string DurationText(double seconds) {
  if (!(seconds < 1e12)) return "?";  // also for NaN
  if (seconds < 59.95) return StrCat(Fixed(std::max(seconds, 0.0), 1), " s");
  const long long whole = std::llround(seconds);
  if (whole < 3600) return StrCat(whole / 60, " min ", TwoDigits(whole % 60), " s");
  if (whole < 86400) return StrCat(whole / 3600, " h ", TwoDigits(whole / 60 % 60), " min");
  return StrCat(whole / 86400, " d ", TwoDigits(whole / 3600 % 24), " h");
}

}  // namespace millrace
