// Recurrent layers as plain loops in double precision, for the tests of LSTM and RNN.
#ifndef MILLRACE_TEST_NN_RECURRENT_REFERENCE_H_
#define MILLRACE_TEST_NN_RECURRENT_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "test/support/blob_values.h"

namespace millrace::test::reference {

// The learnable arrays in the order of Caffe's files; `fixed` is empty without a static input.
struct RecurrentWeights {
  Array x, bias, fixed, hidden;
  Array output, output_bias;  // of an RNN
};

struct Recurrent {
  int64_t steps = 1, streams = 1, inputs = 1, static_inputs = 0, outputs = 1;

  // row . column of `width` values.
  static double Dot(const Array& a, int64_t a_at, const Array& b, int64_t b_at, int64_t width) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += a[a_at + i] * b[b_at + i];
    return sum;
  }

  // Sum `gate` of stream n in step t, given the hidden state {streams, outputs}.
  double Sum(const RecurrentWeights& w, const Array& x, const Array& cont, const Array& fixed,
             const Array& hidden, int64_t t, int64_t n, int64_t gate) const {
    const int64_t at = t * streams + n;
    double sum = w.bias[gate] + Dot(w.x, gate * inputs, x, at * inputs, inputs);
    sum += cont[at] * Dot(w.hidden, gate * outputs, hidden, n * outputs, outputs);
    if (static_inputs > 0) {
      sum += Dot(w.fixed, gate * static_inputs, fixed, n * static_inputs, static_inputs);
    }
    return sum;
  }

  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  // Returns h of all steps; `hidden` and `cells` are the state before and after.
  Array Lstm(const RecurrentWeights& w, const Array& x, const Array& cont, const Array& fixed,
             Array* hidden, Array* cells) const {
    Array all;
    for (int64_t t = 0; t < steps; ++t) {
      const Array before = *hidden;
      for (int64_t n = 0; n < streams; ++n) {
        for (int64_t d = 0; d < outputs; ++d) {
          const auto sum = [&](int64_t gate) {
            return Sum(w, x, cont, fixed, before, t, n, gate * outputs + d);
          };
          double& c = (*cells)[n * outputs + d];
          c = cont[t * streams + n] * Sigmoid(sum(1)) * c + Sigmoid(sum(0)) * std::tanh(sum(3));
          (*hidden)[n * outputs + d] = Sigmoid(sum(2)) * std::tanh(c);
        }
      }
      all.insert(all.end(), hidden->begin(), hidden->end());
    }
    return all;
  }

  // Returns o of all steps.
  Array Rnn(const RecurrentWeights& w, const Array& x, const Array& cont, const Array& fixed,
            Array* hidden) const {
    Array all;
    for (int64_t t = 0; t < steps; ++t) {
      const Array before = *hidden;
      for (int64_t n = 0; n < streams; ++n) {
        for (int64_t d = 0; d < outputs; ++d) {
          (*hidden)[n * outputs + d] = std::tanh(Sum(w, x, cont, fixed, before, t, n, d));
        }
        for (int64_t d = 0; d < outputs; ++d) {
          all.push_back(std::tanh(w.output_bias[d] +
                                  Dot(w.output, d * outputs, *hidden, n * outputs, outputs)));
        }
      }
    }
    return all;
  }
};

}  // namespace millrace::test::reference

#endif  // MILLRACE_TEST_NN_RECURRENT_REFERENCE_H_
