#include "test/nn/reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace millrace::test::reference {

// ---- Convolution ----

template <typename Visit>
void Convolution::ForEachProduct(Visit visit) const {
  const int64_t in_group = c / groups, out_group = outputs / groups;
  for (int64_t image = 0; image < n; ++image)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < in_group; ++i)
        for (int64_t row = 0; row < out_h(); ++row)
          for (int64_t column = 0; column < out_w(); ++column)
            for (int64_t kh = 0; kh < kernel_h; ++kh)
              for (int64_t kw = 0; kw < kernel_w; ++kw) {
                const int64_t y = row * stride_h - pad_h + kh * dilation_h;
                const int64_t x = column * stride_w - pad_w + kw * dilation_w;
                if (y < 0 || y >= h || x < 0 || x >= w) continue;
                const int64_t channel = o / out_group * in_group + i;
                visit(((image * outputs + o) * out_h() + row) * out_w() + column,
                      ((image * c + channel) * h + y) * w + x,
                      ((o * in_group + i) * kernel_h + kh) * kernel_w + kw);
              }
}

Array Convolution::Forward(const Array& x, const Array& weight, const Array& bias) const {
  Array y(out_count(), 0.0);
  const int64_t area = out_h() * out_w();
  if (!bias.empty()) {
    for (int64_t i = 0; i < out_count(); ++i) y[i] = bias[i / area % outputs];
  }
  ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) { y[yi] += x[xi] * weight[wi]; });
  return y;
}

void Convolution::Backward(const Array& x, const Array& weight, const Array& dy, Array* dx,
                           Array* dweight, Array* dbias) const {
  dx->assign(in_count(), 0.0);
  dweight->assign(weight_count(), 0.0);
  dbias->assign(outputs, 0.0);
  ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) {
    (*dx)[xi] += dy[yi] * weight[wi];
    (*dweight)[wi] += dy[yi] * x[xi];
  });
  const int64_t area = out_h() * out_w();
  for (int64_t i = 0; i < out_count(); ++i) (*dbias)[i / area % outputs] += dy[i];
}

// ---- Pooling ----

int64_t Pooling::Out(int64_t size, int64_t kernel, int64_t pad, int64_t stride) const {
  const int64_t room = size + 2 * pad - kernel;
  int64_t out = (round_up ? (room + stride - 1) / stride : room / stride) + 1;
  // With padding, the last window has to start inside the image or the leading padding.
  if (padded() && (out - 1) * stride >= size + pad) --out;
  return out;
}

Pooling::Window Pooling::At(int64_t out_row, int64_t out_column) const {
  Window window;
  window.h0 = out_row * stride_h - pad_h;
  window.w0 = out_column * stride_w - pad_w;
  window.h1 = std::min(window.h0 + kernel_h, h + pad_h);
  window.w1 = std::min(window.w0 + kernel_w, w + pad_w);
  window.area = (window.h1 - window.h0) * (window.w1 - window.w0);
  window.h0 = std::max<int64_t>(window.h0, 0);
  window.w0 = std::max<int64_t>(window.w0, 0);
  window.h1 = std::min(window.h1, h);
  window.w1 = std::min(window.w1, w);
  return window;
}

Array Pooling::Forward(const Array& x) const {
  Array y(out_count());
  for (int64_t i = 0; i < out_count(); ++i) {
    const Window window = At(i / out_w() % out_h(), i % out_w());
    const double* image = x.data() + i / (out_h() * out_w()) * h * w;
    double sum = 0, largest = -FLT_MAX;
    for (int64_t row = window.h0; row < window.h1; ++row)
      for (int64_t column = window.w0; column < window.w1; ++column) {
        sum += image[row * w + column];
        largest = std::max(largest, image[row * w + column]);
      }
    const bool empty = window.h0 >= window.h1 || window.w0 >= window.w1;
    y[i] = !average ? largest : empty ? 0 : sum / window.area;
  }
  return y;
}

Array Pooling::Backward(const Array& x, const Array& dy) const {
  Array dx(n * c * h * w, 0.0);
  for (int64_t i = 0; i < out_count(); ++i) {
    const Window window = At(i / out_w() % out_h(), i % out_w());
    const int64_t image = i / (out_h() * out_w()) * h * w;
    int64_t best = -1;
    for (int64_t row = window.h0; row < window.h1; ++row)
      for (int64_t column = window.w0; column < window.w1; ++column) {
        const int64_t place = image + row * w + column;
        if (average) dx[place] += dy[i] / window.area;
        if (best < 0 || x[place] > x[best]) best = place;
      }
    if (!average && best >= 0) dx[best] += dy[i];
  }
  return dx;
}

// ---- Inner product ----

Array InnerProduct::Forward(const Array& x, const Array& weight, const Array& bias) const {
  Array y(m * outputs, 0.0);
  for (int64_t row = 0; row < m; ++row)
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (int64_t i = 0; i < k; ++i) sum += x[row * k + i] * weight[Weight(o, i)];
      y[row * outputs + o] = sum;
    }
  return y;
}

void InnerProduct::Backward(const Array& x, const Array& weight, const Array& dy, Array* dx,
                            Array* dweight, Array* dbias) const {
  dx->assign(m * k, 0.0);
  dweight->assign(outputs * k, 0.0);
  dbias->assign(outputs, 0.0);
  for (int64_t row = 0; row < m; ++row)
    for (int64_t o = 0; o < outputs; ++o) {
      const double d = dy[row * outputs + o];
      (*dbias)[o] += d;
      for (int64_t i = 0; i < k; ++i) {
        (*dx)[row * k + i] += d * weight[Weight(o, i)];
        (*dweight)[Weight(o, i)] += d * x[row * k + i];
      }
    }
}

// ---- LRN ----

Array Lrn::NeighbourSums(const Array& values) const {
  const int64_t reach = (size - 1) / 2;
  Array sums(values.size(), 0.0);
  const auto index = [&](int64_t image, int64_t channel, int64_t row, int64_t column) {
    return ((image * c + channel) * h + row) * w + column;
  };
  for (int64_t image = 0; image < n; ++image)
    for (int64_t channel = 0; channel < c; ++channel)
      for (int64_t row = 0; row < h; ++row)
        for (int64_t column = 0; column < w; ++column) {
          double& sum = sums[index(image, channel, row, column)];
          if (!within_channel) {
            const int64_t last = std::min(channel + reach, c - 1);
            for (int64_t i = std::max<int64_t>(channel - reach, 0); i <= last; ++i) {
              sum += values[index(image, i, row, column)];
            }
            continue;
          }
          for (int64_t y = std::max<int64_t>(row - reach, 0); y <= std::min(row + reach, h - 1);
               ++y)
            for (int64_t x = std::max<int64_t>(column - reach, 0);
                 x <= std::min(column + reach, w - 1); ++x) {
              sum += values[index(image, channel, y, x)];
            }
        }
  return sums;
}

Array Lrn::Scale(const Array& x) const {
  Array squares(x);
  for (double& value : squares) value *= value;
  Array scale = NeighbourSums(squares);
  const double area = static_cast<double>(within_channel ? size * size : size);
  for (double& value : scale) value = (within_channel ? 1 : k) + alpha / area * value;
  return scale;
}

Array Lrn::Forward(const Array& x) const {
  Array y = Scale(x);
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(y[i], -beta);
  return y;
}

Array Lrn::Backward(const Array& x, const Array& dy) const {
  // dE/dx_i = dy_i s_i^-b - 2 (alpha/area) b x_i sum over neighbours j of i of dy_j x_j s_j^(-b-1).
  // The neighbour relation is symmetric.
  const Array scale = Scale(x);
  Array term(x.size());
  for (size_t i = 0; i < x.size(); ++i) term[i] = dy[i] * x[i] * std::pow(scale[i], -beta - 1);
  const Array sums = NeighbourSums(term);
  const double area = static_cast<double>(within_channel ? size * size : size);
  Array dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    dx[i] = dy[i] * std::pow(scale[i], -beta) - 2 * alpha / area * beta * x[i] * sums[i];
  }
  return dx;
}

// ---- ReLU ----

Array ReluForward(const Array& x, double negative_slope) {
  Array y(x);
  for (double& value : y) value *= value > 0 ? 1 : negative_slope;
  return y;
}

Array ReluBackward(const Array& x, const Array& dy, double negative_slope) {
  Array dx(dy);
  for (size_t i = 0; i < dx.size(); ++i) dx[i] *= x[i] > 0 ? 1 : negative_slope;
  return dx;
}

// ---- Softmax, loss, accuracy ----

Array Classes::Softmax(const Array& x) const {
  Array y(x.size());
  for (int64_t p = 0; p < positions(); ++p) {
    double largest = x[Index(p, 0)], sum = 0;
    for (int64_t i = 0; i < classes; ++i) largest = std::max(largest, x[Index(p, i)]);
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(x[Index(p, i)] - largest);
    for (int64_t i = 0; i < classes; ++i) {
      y[Index(p, i)] = std::exp(x[Index(p, i)] - largest) / sum;
    }
  }
  return y;
}

Array Classes::SoftmaxBackward(const Array& x, const Array& dy) const {
  const Array y = Softmax(x);
  Array dx(x.size(), 0.0);
  for (int64_t p = 0; p < positions(); ++p)
    for (int64_t i = 0; i < classes; ++i)
      for (int64_t j = 0; j < classes; ++j) {
        const double yi = y[Index(p, i)], yj = y[Index(p, j)];
        dx[Index(p, i)] += dy[Index(p, j)] * yj * ((i == j ? 1 : 0) - yi);
      }
  return dx;
}

double Classes::Loss(const Array& x, const std::vector<int>& labels, std::optional<int> ignored,
                     double normalizer) const {
  const Array y = Softmax(x);
  double loss = 0;
  for (int64_t p = 0; p < positions(); ++p) {
    if (ignored == labels[p]) continue;
    loss -= std::log(std::max<double>(y[Index(p, labels[p])], FLT_MIN));
  }
  return loss / normalizer;
}

Array Classes::LossBackward(const Array& x, const std::vector<int>& labels,
                            std::optional<int> ignored, double normalizer) const {
  Array dx = Softmax(x);
  for (int64_t p = 0; p < positions(); ++p)
    for (int64_t i = 0; i < classes; ++i) {
      double& d = dx[Index(p, i)];
      d = ignored == labels[p] ? 0 : (d - (i == labels[p] ? 1 : 0)) / normalizer;
    }
  return dx;
}

double Classes::Accuracy(const Array& x, const std::vector<int>& labels, std::optional<int> ignored,
                         int top_k, std::optional<int> only_class) const {
  double right = 0, counted = 0;
  for (int64_t p = 0; p < positions(); ++p) {
    if (ignored == labels[p] || (only_class && *only_class != labels[p])) continue;
    std::vector<std::pair<double, bool>> ranking;  // best first; in a tie, the label is last
    for (int64_t i = 0; i < classes; ++i) ranking.emplace_back(-x[Index(p, i)], i == labels[p]);
    std::sort(ranking.begin(), ranking.end());
    for (int i = 0; i < top_k; ++i) right += ranking[i].second;
    ++counted;
  }
  return counted == 0 ? 0 : right / counted;
}

}  // namespace millrace::test::reference
