#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

}  // namespace millrace::inline data
