#include "data/images/resize.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <vector>

namespace millrace::inline data {
namespace {

constexpr int kWeightOne = 1 << 11;

// Rounds to the nearest integer, ties to even, as OpenCV does.
int Weight(float fraction) { return static_cast<int>(std::lrint(fraction * kWeightOne)); }

// Where output pixel `at` lies in the input: the pixel before it, and the fraction beyond that.
struct Place {
  int pixel;
  float fraction;
};

Place PlaceOf(int at, int in, int out) {
  const double scale = 1.0 / (static_cast<double>(out) / in);
  const float position = static_cast<float>((at + 0.5) * scale - 0.5);
  const int pixel = static_cast<int>(std::floor(position));
  return {pixel, position - static_cast<float>(pixel)};
}

void Halve(const PlaneView& in, int height, int width, uint8_t* out) {
  for (int y = 0; y < height; ++y) {
    const uint8_t* const above = in.values + 2 * y * in.stride;
    const uint8_t* const below = above + in.stride;
    for (int x = 0; x < width; ++x) {
      const int sum = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1];
      *out++ = static_cast<uint8_t>((sum + 2) >> 2);
    }
  }
}

}  // namespace

void Resizer::MakeColumns(int in, int out) {
  if (columns_in_ == in && static_cast<int>(columns_.size()) == out) return;
  columns_in_ = in;
  columns_.resize(out);
  for (int x = 0; x < out; ++x) {
    Place place = PlaceOf(x, in, out);
    if (place.pixel < 0) place = {0, 0};
    if (place.pixel >= in - 1) place = {in - 1, 0};
    columns_[x] = {place.pixel, std::min(place.pixel + 1, in - 1), Weight(1 - place.fraction),
                   Weight(place.fraction)};
  }
}

void Resizer::ResizeRow(const uint8_t* in, std::vector<int>* out) const {
  int* to = out->data();
  for (const Column& column : columns_) {
    *to++ = in[column.first] * column.weight0 + in[column.second] * column.weight1;
  }
}

void Resizer::Resize(const PlaneView& in, int height, int width, uint8_t* out) {
  if (in.height == height && in.width == width) {
    for (int y = 0; y < height; ++y)
      memcpy(out + int64_t{y} * width, in.values + y * in.stride, width);
    return;
  }
  if (in.height == 2 * height && in.width == 2 * width) return Halve(in, height, width, out);
  MakeColumns(in.width, width);
  above_.resize(width);
  below_.resize(width);
  int above_row = -1, below_row = -1;  // the input rows in above_ and below_
  for (int y = 0; y < height; ++y) {
    const Place place = PlaceOf(y, in.height, height);
    const int first = std::clamp(place.pixel, 0, in.height - 1);
    const int second = std::clamp(place.pixel + 1, 0, in.height - 1);
    if (first == below_row) {
      above_.swap(below_);
      std::swap(above_row, below_row);
    }
    if (first != above_row) ResizeRow(in.values + first * in.stride, &above_);
    if (second != below_row) ResizeRow(in.values + second * in.stride, &below_);
    above_row = first;
    below_row = second;
    const int weight0 = Weight(1 - place.fraction), weight1 = Weight(place.fraction);
    const int* const above = above_.data();
    const int* const below = below_.data();
    for (int x = 0; x < width; ++x) {
      const int sum = ((weight0 * (above[x] >> 4)) >> 16) + ((weight1 * (below[x] >> 4)) >> 16);
      *out++ = static_cast<uint8_t>((sum + 2) >> 2);
    }
  }
}

void Resizer::Resize(const Image& in, int height, int width, Image* out) {
  ResizeImage(in.channels, height, width, out);
  const int64_t from = int64_t{in.height} * in.width, to = int64_t{height} * width;
  for (int c = 0; c < in.channels; ++c) {
    Resize({in.values.data() + c * from, in.height, in.width, in.width}, height, width,
           out->values.data() + c * to);
  }
}

namespace {

constexpr int kWeightBits = 11;

struct Plane {
  const uint8_t* values;
  int height, width;
};

// ---- Nearest ----------------------------------------------------------------

std::vector<int> NearestPixels(int in, int out) {
  std::vector<int> pixels(out);
  const double scale = 1 / (static_cast<double>(out) / in);
  for (int at = 0; at < out; ++at) {
    pixels[at] = std::min(static_cast<int>(std::floor(at * scale)), in - 1);
  }
  return pixels;
}

void Nearest(const Plane& in, int height, int width, uint8_t* out) {
  const std::vector<int> rows = NearestPixels(in.height, height);
  const std::vector<int> columns = NearestPixels(in.width, width);
  for (const int row : rows) {
    const uint8_t* const from = in.values + int64_t{row} * in.width;
    for (const int column : columns) *out++ = from[column];
  }
}

// ---- Sums of pixels with integer weights -------------------------------------

// The pixels of the input whose weighted sum output pixel `at` is; a border pixel stands for those
// outside of the image.
struct Weights {
  int taps = 0;
  std::vector<int> pixel;   // [at][taps]
  std::vector<int> weight;  // the same
};

// OpenCV's weights of a cubic with A = -0.75, of the pixels -1, 0, 1 and 2.
void CubicWeights(float x, float* weight) {
  constexpr float kA = -0.75f;
  weight[0] = ((kA * (x + 1) - 5 * kA) * (x + 1) + 8 * kA) * (x + 1) - 4 * kA;
  weight[1] = ((kA + 2) * x - (kA + 3)) * x * x + 1;
  weight[2] = ((kA + 2) * (1 - x) - (kA + 3)) * (1 - x) * (1 - x) + 1;
  weight[3] = 1 - weight[0] - weight[1] - weight[2];
}

// Weights of the pixels -3 to 4: sin(pi d) sin(pi d / 4) / (pi^2 d^2 / 4) with d = x - pixel, up to
// a factor that is the same for all of them.
void LanczosWeights(float x, float* weight) {
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    const double d = double{x} + 3 - k;
    // |sin(pi d)| is the same for all pixels; its sign alternates.
    const double angle = -d * std::numbers::pi / 4;
    weight[k] = x < FLT_EPSILON
                    ? static_cast<float>(k == 3)
                    : static_cast<float>((k % 2 ? -1 : 1) * std::sin(angle) / (angle * angle));
    sum += weight[k];
  }
  for (int k = 0; k < 8; ++k) weight[k] /= sum;
}

Weights WeightsOf(int in, int out, Interpolation interpolation) {
  Weights weights;
  weights.taps = interpolation == Interpolation::kCubic      ? 4
                 : interpolation == Interpolation::kLanczos4 ? 8
                                                             : 2;
  const double inverse = static_cast<double>(out) / in, scale = 1 / inverse;
  for (int at = 0; at < out; ++at) {
    float place, fraction;
    if (interpolation == Interpolation::kArea) {
      const int pixel = static_cast<int>(std::floor(at * scale));
      place = static_cast<float>(pixel);
      fraction = static_cast<float>((at + 1) - (pixel + 1) * inverse);
      fraction = fraction <= 0 ? 0 : fraction - std::floor(fraction);
    } else {
      const auto position = static_cast<float>((at + 0.5) * scale - 0.5);
      place = std::floor(position);
      fraction = position - place;
    }
    float weight[8] = {1 - fraction, fraction};
    if (interpolation == Interpolation::kCubic) CubicWeights(fraction, weight);
    if (interpolation == Interpolation::kLanczos4) LanczosWeights(fraction, weight);
    const int first = static_cast<int>(place) - weights.taps / 2 + 1;
    for (int k = 0; k < weights.taps; ++k) {
      weights.pixel.push_back(std::clamp(first + k, 0, in - 1));
      weights.weight.push_back(static_cast<int>(std::lrint(weight[k] * (1 << kWeightBits))));
    }
  }
  return weights;
}

// Sums along the rows first, then along the columns.
void WeightedSums(const Plane& in, int height, int width, Interpolation interpolation,
                  uint8_t* out) {
  const Weights columns = WeightsOf(in.width, width, interpolation);
  const Weights rows = WeightsOf(in.height, height, interpolation);
  std::vector<int> sums(static_cast<size_t>(in.height) * width);
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* const from = in.values + int64_t{y} * in.width;
    for (int x = 0; x < width; ++x) {
      int sum = 0;
      for (int k = x * columns.taps; k < (x + 1) * columns.taps; ++k) {
        sum += from[columns.pixel[k]] * columns.weight[k];
      }
      sums[int64_t{y} * width + x] = sum;
    }
  }
  for (int y = 0; y < height; ++y) {
    const int* const weight = &rows.weight[y * rows.taps];
    const int* from[8];
    for (int k = 0; k < rows.taps; ++k) {
      from[k] = &sums[int64_t{rows.pixel[y * rows.taps + k]} * width];
    }
    for (int x = 0; x < width; ++x) {
      if (rows.taps == 2) {  // rounded as in data/images/resize.h
        const int sum =
            ((weight[0] * (from[0][x] >> 4)) >> 16) + ((weight[1] * (from[1][x] >> 4)) >> 16);
        *out++ = static_cast<uint8_t>((sum + 2) >> 2);
        continue;
      }
      int64_t sum = 0;
      for (int k = 0; k < rows.taps; ++k) sum += int64_t{weight[k]} * from[k][x];
      constexpr int kShift = 2 * kWeightBits;
      const int64_t rounded = (sum + (int64_t{1} << (kShift - 1))) >> kShift;
      *out++ = static_cast<uint8_t>(std::clamp<int64_t>(rounded, 0, 255));
    }
  }
}

// ---- Areas ------------------------------------------------------------------

struct AreaPart {
  int out, in;
  float share;  // of the input pixel in the output pixel
};

std::vector<AreaPart> AreaParts(int in, int out) {
  constexpr double kMin = 1e-3;  // of a pixel
  const double scale = 1 / (static_cast<double>(out) / in);
  std::vector<AreaPart> parts;
  for (int at = 0; at < out; ++at) {
    const double begin = at * scale, end = begin + scale;
    const double size = std::min(scale, in - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), in - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    if (first - begin > kMin) {
      parts.push_back({at, first - 1, static_cast<float>((first - begin) / size)});
    }
    for (int pixel = first; pixel < last; ++pixel) {
      parts.push_back({at, pixel, static_cast<float>(1 / size)});
    }
    if (end - last > kMin) {
      const double rest = std::min(std::min(end - last, 1.0), size);
      parts.push_back({at, last, static_cast<float>(rest / size)});
    }
  }
  return parts;
}

void Areas(const Plane& in, int height, int width, uint8_t* out) {
  const std::vector<AreaPart> rows = AreaParts(in.height, height);
  const std::vector<AreaPart> columns = AreaParts(in.width, width);
  std::vector<float> line(width), sums(width);
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint8_t* const from = in.values + int64_t{rows[i].in} * in.width;
    std::fill(line.begin(), line.end(), 0.0f);
    for (const AreaPart& part : columns) line[part.out] += from[part.in] * part.share;
    const bool begins = i == 0 || rows[i - 1].out != rows[i].out;
    for (int x = 0; x < width; ++x) {
      sums[x] = (begins ? 0.0f : sums[x]) + rows[i].share * line[x];
    }
    const bool ends = i + 1 == rows.size() || rows[i + 1].out != rows[i].out;
    if (!ends) continue;
    for (int x = 0; x < width; ++x) *out++ = ToByte(sums[x]);
  }
}

// Blocks of whole pixels.
void Blocks(const Plane& in, int height, int width, uint8_t* out) {
  const int high = in.height / height, wide = in.width / width;
  const float share = 1.0f / static_cast<float>(high * wide);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int sum = 0;
      for (int row = y * high; row < (y + 1) * high; ++row) {
        const uint8_t* const from = in.values + int64_t{row} * in.width + int64_t{x} * wide;
        for (int k = 0; k < wide; ++k) sum += from[k];
      }
      *out++ = ToByte(static_cast<float>(sum) * share);
    }
  }
}

void Area(const Plane& in, int height, int width, uint8_t* out) {
  if (in.height < height || in.width < width) {
    WeightedSums(in, height, width, Interpolation::kArea, out);
  } else if (in.height % height == 0 && in.width % width == 0) {
    Blocks(in, height, width, out);
  } else {
    Areas(in, height, width, out);
  }
}

}  // namespace

void Resampler::Resize(const Image& in, int height, int width, Interpolation interpolation,
                       Image* out) {
  const bool same = in.height == height && in.width == width;
  // OpenCV halves both sides with the same function.
  const bool halves =
      in.height == 2 * height && in.width == 2 * width && interpolation == Interpolation::kArea;
  if (same || halves || interpolation == Interpolation::kLinear) {
    return linear_.Resize(in, height, width, out);
  }
  ResizeImage(in.channels, height, width, out);
  for (int c = 0; c < in.channels; ++c) {
    const Plane from{in.values.data() + int64_t{c} * in.height * in.width, in.height, in.width};
    uint8_t* const to = out->values.data() + int64_t{c} * height * width;
    if (interpolation == Interpolation::kNearest) {
      Nearest(from, height, width, to);
    } else if (interpolation == Interpolation::kArea) {
      Area(from, height, width, to);
    } else {
      WeightedSums(from, height, width, interpolation, to);
    }
  }
}

}  // namespace millrace::inline data
