#include "metrics/run_curves.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>

namespace millrace::inline metrics {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
// Beyond these, sums and ratios of values would overflow. Such numbers count as not finite, and
// their inverses as 0.
constexpr double kMaxValue = 1e30, kMaxSeconds = 1e15;

bool Drawable(double value) { return std::abs(value) <= kMaxValue; }
double Rounded(double value) { return std::abs(value) < 1 / kMaxValue ? 0 : value; }

// The value of the output called `name`, or else of the first output in alphabetical order whose
// name contains one of `parts`, tried in order.
std::optional<double> Output(const TestPoint& test, const std::string& name,
                             std::initializer_list<const char*> parts) {
  const auto exact = test.outputs().find(name);
  if (exact != test.outputs().end()) return exact->second;
  const std::map<std::string, double> sorted(test.outputs().begin(), test.outputs().end());
  for (const char* part : parts) {
    for (const auto& [output, value] : sorted) {
      if (output.find(part) != std::string::npos) return value;
    }
  }
  return std::nullopt;
}

int FirstTestNet(const Run& run) {
  int net = std::numeric_limits<int>::max();
  for (const MetricsRow& row : run.rows) {
    if (row.has_test()) net = std::min(net, static_cast<int>(row.test().net()));
  }
  return net;
}

void DropBeyond(double x, Curve* curve) {
  std::erase_if(*curve, [x](const Point& point) { return point.x > x; });
}

void SortByX(CurveSet* set) {
  for (Curve* curve : {&set->train_loss, &set->test_loss, &set->test_accuracy}) {
    std::stable_sort(curve->begin(), curve->end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
  }
}

// Builds the curves from the rows of a file.
class Builder {
 public:
  explicit Builder(const Run& run) : run_(run), test_net_(FirstTestNet(run)) {
    curves_.name = run.name;
  }

  RunCurves Build() {
    for (size_t i = 0; i < run_.rows.size(); ++i) {
      const MetricsRow& row = run_.rows[i];
      if (row.has_run()) BeginPart(i);
      // A time that is not finite, or too large, cannot be drawn.
      if (!(std::abs(before_ + row.time()) <= kMaxSeconds)) continue;
      seconds_ = std::max(seconds_, before_ + row.time());
      if (row.has_train()) AddTrain(row);
      if (row.has_test() && row.test().net() == test_net_) AddTest(row);
    }
    SortByX(&curves_.by_time);
    SortByX(&curves_.by_iteration);
    return std::move(curves_);
  }

 private:
  void BeginPart(size_t index) {
    if (run_.rows[index].run().has_solvers()) curves_.solvers = run_.rows[index].run().solvers();
    before_ = seconds_;
    for (size_t i = index; i < run_.rows.size(); ++i) {
      if (!run_.rows[i].has_iter()) continue;
      const auto start = static_cast<double>(run_.rows[i].iter());
      DropBeyond(start, &curves_.by_iteration.train_loss);
      DropBeyond(start, &curves_.by_iteration.test_loss);
      DropBeyond(start, &curves_.by_iteration.test_accuracy);
      return;
    }
  }

  void AddTrain(const MetricsRow& row) {
    const double loss = Drawable(row.train().loss()) ? Rounded(row.train().loss()) : kGap;
    curves_.by_time.train_loss.push_back({before_ + row.time(), loss});
    curves_.by_iteration.train_loss.push_back({static_cast<double>(row.iter()), loss});
  }

  void AddTest(const MetricsRow& row) {
    const double time = before_ + row.time();
    const auto iteration = static_cast<double>(row.iter());
    const std::optional<double> loss = Output(row.test(), "loss", {"loss"});
    if (loss && Drawable(*loss)) {
      curves_.by_time.test_loss.push_back({time, Rounded(*loss)});
      curves_.by_iteration.test_loss.push_back({iteration, Rounded(*loss)});
    }
    const std::optional<double> accuracy = Output(row.test(), "accuracy", {"acc", "top-1", "top1"});
    if (accuracy && Drawable(*accuracy)) {
      const double percent = 100 * Rounded(*accuracy);
      curves_.by_time.test_accuracy.push_back({time, percent});
      curves_.by_iteration.test_accuracy.push_back({iteration, percent});
      curves_.last = RunCurves::Accuracy{percent, row.iter(), time};
      if (!curves_.best || percent > curves_.best->percent) curves_.best = curves_.last;
    }
  }

  const Run& run_;
  const int test_net_;
  RunCurves curves_;
  double before_ = 0;   // duration of the earlier parts of the run
  double seconds_ = 0;  // latest time so far
};

}  // namespace

RunCurves MakeCurves(const Run& run) { return Builder(run).Build(); }

Curve Envelope(const Curve& curve, size_t limit) {
  if (curve.size() <= limit) return curve;
  const size_t buckets = std::max<size_t>(limit / 2, 1);
  Curve kept;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = curve.size() * b / buckets, end = curve.size() * (b + 1) / buckets;
    size_t low = end, high = end;
    bool gap = false;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(curve[i].y)) {
        gap = true;
        continue;
      }
      if (low == end || curve[i].y < curve[low].y) low = i;
      if (high == end || curve[i].y > curve[high].y) high = i;
    }
    if (low < end) kept.push_back(curve[std::min(low, high)]);
    if (low < end && low != high) kept.push_back(curve[std::max(low, high)]);
    if (gap) kept.push_back({curve[end - 1].x, kGap});
  }
  return kept;
}

namespace {

// The mean of the points [begin, end) that are not gaps; nullopt if all are gaps.
std::optional<Point> Mean(const Curve& curve, size_t begin, size_t end) {
  Point sum;
  double count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (std::isnan(curve[i].y)) continue;
    sum.x += curve[i].x;
    sum.y += curve[i].y;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Point{sum.x / count, sum.y / count};
}

}  // namespace

Curve Smooth(const Curve& curve, int parts) {
  constexpr size_t kMax = 1000;
  Curve means;
  const size_t buckets = std::min(curve.size(), kMax);
  for (size_t b = 0; b < buckets; ++b) {
    const auto mean = Mean(curve, curve.size() * b / buckets, curve.size() * (b + 1) / buckets);
    if (mean) means.push_back(*mean);
  }
  const size_t half = means.size() / static_cast<size_t>(2 * parts);
  Curve smooth;
  for (size_t i = 0; i < means.size(); ++i) {
    // The window is symmetric at the beginning, where the loss falls fast. At the end, where the
    // loss is flat, half a window is better than the noise of a few points.
    const size_t before = std::min(half, i);
    const size_t after = std::min(std::max(before, half / 4), means.size() - 1 - i);
    smooth.push_back({means[i].x, Mean(means, i - before, i + after + 1)->y});
  }
  return smooth;
}

}  // namespace millrace::inline metrics
