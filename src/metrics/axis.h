// Axes of a figure: the relative position of a value between two ends, and round numbers for the
// ticks. Pure functions of the numbers given.
#ifndef MILLRACE_METRICS_AXIS_H_
#define MILLRACE_METRICS_AXIS_H_

#include <string>
#include <vector>

#include "millrace/export.h"

namespace millrace {

class Axis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  // From `low` to `high`, both finite; equal ends are widened, swapped ends exchanged. A
  // logarithmic axis needs low > 0.
  static Axis Linear(double low, double high);
  static Axis Logarithmic(double low, double high);

  // 0 at the low end, 1 at the high end, outside [0, 1] beyond them; strictly increasing in
  // `value`. Values that a logarithmic axis cannot show (<= 0) give a number far below 0.
  double Fraction(double value) const;

  bool logarithmic() const { return logarithmic_; }
  double low() const { return low_; }
  double high() const { return high_; }
  // Between the ends, ascending: two to about eight ticks.
  const std::vector<Tick>& ticks() const { return ticks_; }
  // Grid lines without labels between the ticks (logarithmic axes).
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

// A number in short form: "0.001", "2.5", "10,000", "1e-07".
MILLRACE_API std::string NumberText(double value, int decimals);
// "12,345".
MILLRACE_API std::string GroupedText(long long value);

// A unit in which times up to `seconds` are readable.
struct TimeUnit {
  const char* name;  // "s", "min", "h", "days"
  double seconds;
};
TimeUnit UnitFor(double seconds);

// "48.2 s", "2 min 31 s", "3 h 05 min", "2 d 04 h".
std::string DurationText(double seconds);

}  // namespace millrace

#endif  // MILLRACE_METRICS_AXIS_H_
