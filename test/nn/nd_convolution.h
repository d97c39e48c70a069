// Reference results of convolutions with any number of spatial axes: direct loops over the
// definition, in double precision.
#ifndef MILLRACE_TEST_NN_ND_CONVOLUTION_H_
#define MILLRACE_TEST_NN_ND_CONVOLUTION_H_

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "test/support/blob_values.h"

namespace millrace::test {

// x {images, channels, in}, y {images, outputs, out}, weights {outputs, channels / groups, kernel}.
struct NdConvolution {
  int64_t images = 1, channels = 1, outputs = 1, groups = 1;
  Shape in, kernel, stride, pad, dilation;

  Shape out() const {
    Shape out;
    for (size_t a = 0; a < in.size(); ++a) {
      out.push_back((in[a] + 2 * pad[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1);
    }
    return out;
  }
  Shape x_shape() const { return Joined({images, channels}, in); }
  Shape y_shape() const { return Joined({images, outputs}, out()); }
  Shape weight_shape() const { return Joined({outputs, channels / groups}, kernel); }

  // Calls visit(y index, x index, weight index) for every product.
  template <typename Visit>
  void ForEachProduct(Visit visit) const {
    const Shape windows = out();
    const int64_t plane = ShapeCount(in), taps = ShapeCount(kernel);
    const int64_t area = ShapeCount(windows), in_group = channels / groups;
    for (int64_t n = 0; n < images; ++n)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t c = 0; c < in_group; ++c)
          for (int64_t window = 0; window < area; ++window)
            for (int64_t tap = 0; tap < taps; ++tap) {
              int64_t at = 0, step = 1, w = window, t = tap;
              bool inside = true;
              for (size_t a = in.size(); a-- > 0;) {
                const int64_t place =
                    w % windows[a] * stride[a] - pad[a] + t % kernel[a] * dilation[a];
                w /= windows[a], t /= kernel[a];
                inside = inside && place >= 0 && place < in[a];
                at += place * step;
                step *= in[a];
              }
              if (!inside) continue;
              const int64_t channel = o / (outputs / groups) * in_group + c;
              visit((n * outputs + o) * area + window, (n * channels + channel) * plane + at,
                    (o * in_group + c) * taps + tap);
            }
  }

  // The fields of convolution_param for a layer with `num_output` outputs.
  std::string Fields(int64_t num_output, bool bias) const {
    std::string text = StrCat("num_output: ", num_output, " group: ", groups,
                              " bias_term: ", bias ? "true" : "false");
    for (const auto& [name, values] : {std::pair("kernel_size", kernel),
                                       {"stride", stride},
                                       {"pad", pad},
                                       {"dilation", dilation}}) {
      for (const int64_t value : values) text += StrCat(" ", name, ": ", value);
    }
    return text;
  }

  static NdConvolution Random(int axes, Rng* rng) {
    NdConvolution g;
    constexpr int64_t kGroups[] = {1, 1, 2, 3};
    g.groups = kGroups[rng->Below(4)];
    g.images = 1 + rng->Below(3);
    g.channels = g.groups * (1 + rng->Below(3));
    g.outputs = g.groups * (1 + rng->Below(3));
    for (int a = 0; a < axes; ++a) {
      g.kernel.push_back(1 + rng->Below(3));
      g.stride.push_back(1 + rng->Below(2));
      g.dilation.push_back(1 + rng->Below(2));
      const int64_t extent = g.dilation[a] * (g.kernel[a] - 1) + 1;
      g.pad.push_back(rng->Below(std::min<int64_t>(extent, 3)));
      g.in.push_back(std::max<int64_t>(extent - 2 * g.pad[a], 1) + rng->Below(4));
    }
    return g;
  }

 private:
  static Shape Joined(Shape first, const Shape& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_ND_CONVOLUTION_H_
