// Axes of a figure: where a value lies between two ends, and round numbers to
// put beside it. Pure functions of the numbers given.
#ifndef MILLRACE_METRICS_AXIS_H_
#define MILLRACE_METRICS_AXIS_H_

#include <string>
#include <vector>

namespace millrace {

class Axis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  // From `low` to `high`, both finite; equal or swapped ends are widened. A
  // logarithmic axis needs low > 0.
  static Axis Linear(double low, double high);
  static Axis Logarithmic(double low, double high);

  // 0 at the low end, 1 at the high end, beyond them outside: rises strictly
  // with `value`. Values that a logarithmic axis cannot show (<= 0) give a
  // number far below 0.
  double Fraction(double value) const;

  bool logarithmic() const { return logarithmic_; }
  double low() const { return low_; }
  double high() const { return high_; }
  // Between the ends, rising: between two and about eight of them.
  const std::vector<Tick>& ticks() const { return ticks_; }
  // Lines without numbers between them (logarithmic axes).
  const std::vector<double>& minor() const { return minor_; }

 private:
  Axis(double low, double high, bool logarithmic);
  void AddRoundTicks();
  bool AddDecadeTicks();

  double low_, high_;
  bool logarithmic_;
  std::vector<Tick> ticks_;
  std::vector<double> minor_;
};

// A number as short as it can be: "0.001", "2.5", "10,000", "1e-07".
std::string NumberText(double value, int decimals);
// "12,345".
std::string GroupedText(long long value);

// The unit that makes times up to `seconds` readable.
struct TimeUnit {
  const char* name;  // "s", "min", "h", "days"
  double seconds;
};
TimeUnit UnitFor(double seconds);

// "48.2 s", "2 min 31 s", "3 h 05 min", "2 d 04 h".
std::string DurationText(double seconds);

}  // namespace millrace

#endif  // MILLRACE_METRICS_AXIS_H_
