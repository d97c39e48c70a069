// Reference results of layers: direct loops over the mathematical definition, in double precision
// and over row-major arrays. They are slow, and independent of the code under test.
#ifndef MILLRACE_TEST_NN_REFERENCE_H_
#define MILLRACE_TEST_NN_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "test/support/blob_values.h"

namespace millrace::test::reference {

// ---- Convolution: x {n, c, h, w}, weights {outputs, c / groups, kh, kw} ----
struct Convolution {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t outputs = 1, groups = 1;
  int64_t kernel_h = 1, kernel_w = 1, pad_h = 0, pad_w = 0;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;

  int64_t out_h() const { return (h + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  int64_t in_count() const { return n * c * h * w; }
  int64_t out_count() const { return n * outputs * out_h() * out_w(); }
  int64_t weight_count() const { return outputs * (c / groups) * kernel_h * kernel_w; }

  // `bias` may be empty.
  Array Forward(const Array& x, const Array& weight, const Array& bias) const;
  void Backward(const Array& x, const Array& weight, const Array& dy, Array* dx, Array* dweight,
                Array* dbias) const;

 private:
  // Calls visit(y index, x index, weight index) for every product.
  template <typename Visit>
  void ForEachProduct(Visit visit) const;
};

// ---- Pooling ----
struct Pooling {
  bool average = false, round_up = true;
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t kernel_h = 1, kernel_w = 1, pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;

  int64_t out_h() const { return Out(h, kernel_h, pad_h, stride_h); }
  int64_t out_w() const { return Out(w, kernel_w, pad_w, stride_w); }
  bool padded() const { return pad_h > 0 || pad_w > 0; }
  int64_t out_count() const { return n * c * out_h() * out_w(); }

  Array Forward(const Array& x) const;
  // Among equal values, the first in row-major order is the maximum.
  Array Backward(const Array& x, const Array& dy) const;

 private:
  int64_t Out(int64_t size, int64_t kernel, int64_t pad, int64_t stride) const;
  struct Window {
    int64_t h0, h1, w0, w1;  // clipped to the image
    int64_t area;            // clipped to the padded image
  };
  Window At(int64_t out_row, int64_t out_column) const;
};

// ---- Inner product ----
// x {m, k}, y {m, outputs}; weights {outputs, k}, or {k, outputs} if transposed.
struct InnerProduct {
  int64_t m = 1, k = 1, outputs = 1;
  bool transpose = false;

  Array Forward(const Array& x, const Array& weight, const Array& bias) const;
  void Backward(const Array& x, const Array& weight, const Array& dy, Array* dx, Array* dweight,
                Array* dbias) const;

 private:
  int64_t Weight(int64_t output, int64_t input) const {
    return transpose ? input * outputs + output : output * k + input;
  }
};

// ---- Local response normalisation ----
// y = x (k + alpha / size * s)^-beta, where s is the sum of squares over `size` neighbouring
// channels. Within a channel, s is the sum over a square of size x size places, with alpha / size^2
// and k = 1.
struct Lrn {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t size = 5;
  double alpha = 1, beta = 0.75, k = 1;
  bool within_channel = false;

  Array Forward(const Array& x) const;
  Array Backward(const Array& x, const Array& dy) const;

 private:
  // k + alpha / size * s at every place.
  Array Scale(const Array& x) const;
  // Sums of `values` over the neighbourhood of every place.
  Array NeighbourSums(const Array& values) const;
};

Array ReluForward(const Array& x, double negative_slope);
Array ReluBackward(const Array& x, const Array& dy, double negative_slope);

// ---- Softmax, loss and accuracy over {outer, classes, inner} ----
struct Classes {
  int64_t outer = 1, classes = 1, inner = 1;

  int64_t count() const { return outer * classes * inner; }
  int64_t positions() const { return outer * inner; }
  // Index of class c at position p (row-major over outer, inner).
  int64_t Index(int64_t position, int64_t c) const {
    return (position / inner * classes + c) * inner + position % inner;
  }

  Array Softmax(const Array& x) const;
  Array SoftmaxBackward(const Array& x, const Array& dy) const;
  // Sum over the positions whose label is not `ignored`, divided by `normalizer`.
  double Loss(const Array& x, const std::vector<int>& labels, std::optional<int> ignored,
              double normalizer) const;
  Array LossBackward(const Array& x, const std::vector<int>& labels, std::optional<int> ignored,
                     double normalizer) const;
  // Calculated by sorting: a prediction is correct if the label is among the first top_k after all
  // classes with an equal score.
  double Accuracy(const Array& x, const std::vector<int>& labels, std::optional<int> ignored,
                  int top_k, std::optional<int> only_class = {}) const;
};

}  // namespace millrace::test::reference

#endif  // MILLRACE_TEST_NN_REFERENCE_H_
