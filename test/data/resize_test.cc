#include "data/images/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes RandomBytes(Rng* rng, int count) {
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng->Next());
  return bytes;
}

Bytes Resized(const Bytes& in, int height, int width, int to_height, int to_width) {
  Bytes out(to_height * to_width);
  Resizer().Resize({in.data(), height, width, width}, to_height, to_width, out.data());
  return out;
}

// Exact bilinear interpolation, from the pixel-centre formula.
double Exact(const Bytes& in, int height, int width, int to_height, int to_width, int y, int x) {
  const auto weights = [](int at, int in, int out, int* pixel) {
    double place = (at + 0.5) * in / out - 0.5;
    place = std::clamp(place, 0.0, in - 1.0);
    *pixel = std::min(static_cast<int>(place), std::max(in - 2, 0));
    return place - *pixel;
  };
  int row, column;
  const double fy = weights(y, height, to_height, &row);
  const double fx = weights(x, width, to_width, &column);
  const auto pixel = [&](int dy, int dx) {
    return static_cast<double>(
        in[std::min(row + dy, height - 1) * width + std::min(column + dx, width - 1)]);
  };
  return (1 - fy) * ((1 - fx) * pixel(0, 0) + fx * pixel(0, 1)) +
         fy * ((1 - fx) * pixel(1, 0) + fx * pixel(1, 1));
}

// OpenCV's arithmetic for 8 bits, pixel by pixel: weights of 11 bits, truncated in between.
int FixedPoint(const Bytes& in, int height, int width, int to_height, int to_width, int y, int x) {
  const auto weights = [](int at, int in, int out, bool clamped, int* pixel, int w[2]) {
    const auto place = static_cast<float>((at + 0.5) * (1.0 / (double(out) / in)) - 0.5);
    *pixel = static_cast<int>(std::floor(place));
    float fraction = place - static_cast<float>(*pixel);
    if (clamped && *pixel < 0) *pixel = 0, fraction = 0;
    if (clamped && *pixel >= in - 1) *pixel = in - 1, fraction = 0;
    w[0] = static_cast<int>(std::nearbyint((1.0f - fraction) * 2048.0f));
    w[1] = static_cast<int>(std::nearbyint(fraction * 2048.0f));
  };
  int row, column, wy[2], wx[2];
  weights(y, height, to_height, false, &row, wy);
  weights(x, width, to_width, true, &column, wx);
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    const int from = std::clamp(row + i, 0, height - 1) * width;
    const int across =
        in[from + column] * wx[0] + in[from + std::min(column + 1, width - 1)] * wx[1];
    sum += (wy[i] * (across >> 4)) >> 16;
  }
  return (sum + 2) >> 2;
}

TEST(Resizer, InterpolatesBetweenPixelCentresWithOpenCvsRounding) {
  Rng rng(test::Seed(), {1});
  for (int round = 0; round < 300; ++round) {
    const int height = 1 + static_cast<int>(rng.Below(20));
    const int width = 1 + static_cast<int>(rng.Below(20));
    int to_height = 1 + static_cast<int>(rng.Below(30));
    const int to_width = 1 + static_cast<int>(rng.Below(30));
    if (height == 2 * to_height && width == 2 * to_width) ++to_height;  // averages, see below
    const Bytes in = RandomBytes(&rng, height * width);
    const Bytes out = Resized(in, height, width, to_height, to_width);
    for (int y = 0; y < to_height; ++y) {
      for (int x = 0; x < to_width; ++x) {
        ASSERT_EQ(out[y * to_width + x], FixedPoint(in, height, width, to_height, to_width, y, x))
            << height << " x " << width << " to " << to_height << " x " << to_width;
        ASSERT_NEAR(out[y * to_width + x], Exact(in, height, width, to_height, to_width, y, x),
                    1.0);
      }
    }
  }
}

// Values that OpenCV 4.6's cv::resize gives.
TEST(Resizer, EqualsOpenCv) {
  const Bytes in = {0, 255, 10, 100, 7, 200, 33, 60, 90};
  EXPECT_EQ(Resized(in, 3, 3, 2, 2), Bytes({67, 91, 49, 100}));
  EXPECT_EQ(Resized(in, 3, 3, 1, 5), Bytes({100, 63, 7, 123, 200}));
  EXPECT_EQ(Resized(in, 3, 3, 4, 4),
            Bytes({0, 159, 163, 10, 63, 86, 111, 129, 75, 45, 76, 159, 33, 50, 71, 90}));
}

TEST(Resizer, AveragesAnExactHalving) {
  const Bytes in = {1, 2, 3, 4, 5, 6, 8, 9, 0, 0, 0, 255, 0, 1, 255, 255};
  EXPECT_EQ(Resized(in, 4, 4, 2, 2), Bytes({4, 6, 0, 191}));
}

TEST(Resizer, KeepsImagesOfTheWantedSizeAndConstants) {
  Rng rng(test::Seed(), {2});
  const Bytes in = RandomBytes(&rng, 35);
  EXPECT_EQ(Resized(in, 5, 7, 5, 7), in);
  EXPECT_EQ(Resized(Bytes(35, 201), 5, 7, 11, 3), Bytes(33, 201));
}

TEST(Resizer, ResizesEachChannelAndRectanglesOfLargerPlanes) {
  Rng rng(test::Seed(), {3});
  const Image image{3, 6, 8, RandomBytes(&rng, 3 * 48)};
  Image out;
  Resizer resizer;
  resizer.Resize(image, 4, 5, &out);
  ASSERT_EQ(out.channels * 1000 + out.height * 10 + out.width, 3045);
  for (int c = 0; c < 3; ++c) {
    const Bytes plane(image.values.begin() + c * 48, image.values.begin() + (c + 1) * 48);
    EXPECT_EQ(Bytes(out.values.begin() + c * 20, out.values.begin() + (c + 1) * 20),
              Resized(plane, 6, 8, 4, 5));
  }
  // Rows 1 to 4, columns 2 to 6 of the first plane.
  Bytes part, small(6);
  for (int y = 1; y < 5; ++y) {
    for (int x = 2; x < 7; ++x) part.push_back(image.values[y * 8 + x]);
  }
  resizer.Resize({image.values.data() + 8 + 2, 4, 5, 8}, 2, 3, small.data());
  EXPECT_EQ(small, Resized(part, 4, 5, 2, 3));
}

}  // namespace
}  // namespace millrace
