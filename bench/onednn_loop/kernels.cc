#include "bench/onednn_loop/kernels.h"

#include <algorithm>
#include <cmath>

#include "bench/onednn_loop/clones.h"

namespace onednn_loop {
namespace {

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
using Ints = int __attribute__((vector_size(32), aligned(4), may_alias));

template <class Vector, class Element>
Vector& VectorAt(Element* p) {
  return *reinterpret_cast<Vector*>(p);
}

}  // namespace

CLONES void SgdUpdate(float* __restrict weights, const float* __restrict gradients,
                      float* __restrict history, size_t count, float rate, float momentum,
                      float decay) {
  for (size_t i = 0; i < count; ++i) {
    const float step = momentum * history[i] + rate * (gradients[i] + decay * weights[i]);
    history[i] = step;
    weights[i] -= step;
  }
}

CLONES void ReluMask(float* __restrict d, const float* __restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) d[i] = y[i] > 0 ? d[i] : 0;
}

// Marsaglia's xorshift (2003) in 16 lanes.
CLONES void Dropout(float* __restrict y, float* __restrict mask, size_t count,
                    uint32_t* __restrict state) {
  for (size_t i = 0; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) {
      uint32_t s = state[lane];
      s ^= s << 13;
      s ^= s >> 17;
      s ^= s << 5;
      state[lane] = s;
      const float factor = (s >> 31) ? 2 : 0;
      mask[i + lane] = factor;
      y[i + lane] *= factor;
    }
  }
}

CLONES void Multiply(float* __restrict d, const float* __restrict mask, size_t count) {
  for (size_t i = 0; i < count; ++i) d[i] *= mask[i];
}

// Channels that fill no whole vectors end with one that overlaps that before it.
CLONES void MaxPoolForward(const PoolShape& s, const float* x, float* y, int* which) {
  for (int n = 0; n < s.images; ++n, x += s.height * s.height * s.channels) {
    for (int i = 0; i < s.pooled_height; ++i) {
      const int rows = std::min(s.kernel, s.height - i * s.stride);
      for (int j = 0; j < s.pooled_height; ++j, y += s.channels, which += s.channels) {
        const int columns = std::min(s.kernel, s.height - j * s.stride);
        const float* corner = x + (i * s.height + j) * s.stride * s.channels;
        for (int at = 0; at < s.channels; at += 8) {
          const int c = std::min(at, s.channels - 8);
          Floats best = VectorAt<const Floats>(corner + c);
          Ints arg = {};
          for (int a = 0; a < rows; ++a) {
            for (int b = 0; b < columns; ++b) {
              const auto v = VectorAt<const Floats>(corner + (a * s.height + b) * s.channels + c);
              const Ints more = v > best;
              best = more ? v : best;
              arg = more ? Ints{} + (a * s.kernel + b) : arg;
            }
          }
          if (s.relu) arg |= ~(best > Floats{});
          VectorAt<Floats>(y + c) = best;
          VectorAt<Ints>(which + c) = arg;
        }
      }
    }
  }
}

// Each input gathers from the windows that cover it: one store per value, and
// nothing to zero before.
CLONES void MaxPoolBackward(const PoolShape& s, const float* dy, const int* which, float* dx) {
  const auto first_window = [&](int at) {
    return at < s.kernel ? 0 : (at - s.kernel) / s.stride + 1;
  };
  const auto last_window = [&](int at) { return std::min(at / s.stride, s.pooled_height - 1); };
  const int top_count = s.pooled_height * s.pooled_height * s.channels;
  for (int n = 0; n < s.images; ++n, dy += top_count, which += top_count) {
    for (int p = 0; p < s.height; ++p) {
      for (int q = 0; q < s.height; ++q, dx += s.channels) {
        for (int at = 0; at < s.channels; at += 8) {
          const int c = std::min(at, s.channels - 8);
          Floats sum = {};
          for (int i = first_window(p); i <= last_window(p); ++i) {
            for (int j = first_window(q); j <= last_window(q); ++j) {
              const int from = (i * s.pooled_height + j) * s.channels + c;
              const int here = (p - i * s.stride) * s.kernel + (q - j * s.stride);
              const Ints mine = VectorAt<const Ints>(which + from) == here;
              sum += (Floats)((Ints)VectorAt<const Floats>(dy + from) & mine);
            }
          }
          VectorAt<Floats>(dx + c) = sum;
        }
      }
    }
  }
}

float SoftmaxLoss(const float* x, const int* labels, float* d, int batch, int classes) {
  double loss = 0;
  const auto n = static_cast<float>(batch);
  for (int i = 0; i < batch; ++i, x += classes, d += classes) {
    const float top = *std::max_element(x, x + classes);
    float sum = 0;
    for (int j = 0; j < classes; ++j) sum += d[j] = std::exp(x[j] - top);
    for (int j = 0; j < classes; ++j) d[j] /= sum * n;
    loss -= std::log(std::max(d[labels[i]] * n, 1e-30f));
    d[labels[i]] -= 1 / n;
  }
  return static_cast<float>(loss / batch);
}

}  // namespace onednn_loop
