// Statistics of an array of floats.
#ifndef MILLRACE_MODEL_VALUE_STATS_H_
#define MILLRACE_MODEL_VALUE_STATS_H_

#include <cmath>
#include <cstdint>

namespace millrace::inline model {

// Sums in double precision. Not-finite values are counted and otherwise left out.
class ValueStats {
 public:
  void Add(double value) {
    if (std::isnan(value)) {
      ++nans_;
    } else if (std::isinf(value)) {
      ++infinities_;
    } else {
      // Welford's method (1962): exact for large means as well.
      ++count_;
      const double difference = value - mean_;
      mean_ += difference / static_cast<double>(count_);
      squares_ += difference * (value - mean_);
      if (count_ == 1 || value < min_) min_ = value;
      if (count_ == 1 || value > max_) max_ = value;
    }
  }

  // Of all values.
  int64_t count() const { return count_ + nans_ + infinities_; }
  int64_t nans() const { return nans_; }
  int64_t infinities() const { return infinities_; }
  // Of the finite values; NaN if there are none.
  double min() const { return OrNan(min_); }
  double max() const { return OrNan(max_); }
  double mean() const { return OrNan(mean_); }
  // The square root of the mean squared distance from the mean.
  double std() const { return OrNan(std::sqrt(squares_ / static_cast<double>(count_))); }

 private:
  double OrNan(double value) const { return count_ > 0 ? value : NAN; }

  int64_t count_ = 0, nans_ = 0, infinities_ = 0;
  double mean_ = 0, squares_ = 0, min_ = 0, max_ = 0;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_VALUE_STATS_H_
