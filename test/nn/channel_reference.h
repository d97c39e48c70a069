// Plain loops over arrays with numbers per channel, for tests of layers that have them.
#ifndef MILLRACE_TEST_NN_CHANNEL_REFERENCE_H_
#define MILLRACE_TEST_NN_CHANNEL_REFERENCE_H_

#include <cmath>
#include <cstdint>

#include "test/support/blob_values.h"

namespace millrace::test::reference {

// Row-major arrays of [outer][channels][inner] values.
struct Channels {
  int64_t outer = 1, channels = 1, inner = 1;

  int64_t count() const { return outer * channels * inner; }
  int64_t Of(int64_t i) const { return i / inner % channels; }

  // Sum of term(i) per channel.
  template <typename Term>
  Array Sums(Term term) const {
    Array sums(channels, 0);
    for (int64_t i = 0; i < count(); ++i) sums[Of(i)] += term(i);
    return sums;
  }
  Array Means(const Array& x) const {
    Array means = Sums([&](int64_t i) { return x[i]; });
    for (double& mean : means) mean /= static_cast<double>(outer * inner);
    return means;
  }
  // Mean squares of the distance from the mean.
  Array Variances(const Array& x) const {
    const Array mean = Means(x);
    Array variances = Sums([&](int64_t i) { return (x[i] - mean[Of(i)]) * (x[i] - mean[Of(i)]); });
    for (double& variance : variances) variance /= static_cast<double>(outer * inner);
    return variances;
  }
  // (x - mean) / deviation
  Array Normalized(const Array& x, const Array& mean, const Array& deviation) const {
    Array y(x.size());
    for (int64_t i = 0; i < count(); ++i) y[i] = (x[i] - mean[Of(i)]) / deviation[Of(i)];
    return y;
  }
  // dx of y = Normalized(x) with x's own mean and deviation: every x[j] of the channel moves both.
  Array NormalizedBackward(const Array& x, const Array& deviation, const Array& dy) const {
    const Array mean = Means(x);
    const auto m = static_cast<double>(outer * inner);
    const Array dmean = Sums([&](int64_t i) { return -dy[i] / deviation[Of(i)]; });
    const Array ddeviation = Sums([&](int64_t i) {
      return -dy[i] * (x[i] - mean[Of(i)]) / (deviation[Of(i)] * deviation[Of(i)]);
    });
    Array dx(x.size());
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t c = Of(i);
      dx[i] = dy[i] / deviation[c] + dmean[c] / m +
              ddeviation[c] * (x[i] - mean[c]) / (m * deviation[c]);
    }
    return dx;
  }
};

}  // namespace millrace::test::reference

#endif  // MILLRACE_TEST_NN_CHANNEL_REFERENCE_H_
