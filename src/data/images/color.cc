#include "data/images/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "data/images/resize.h"

namespace millrace::inline data {
namespace {

// Calls change(&blue, &green, &red) for each pixel.
template <typename Change>
void ForPixels(Image* image, Change change) {
  const int64_t plane = int64_t{image->height} * image->width;
  uint8_t* const blue = image->values.data();
  for (int64_t i = 0; i < plane; ++i) {
    change(&blue[i], &blue[plane + i], &blue[2 * plane + i]);
  }
}

constexpr int kHsvShift = 12;

// numerator / (factor i) in units of 2^-12.
std::array<int, 256> Quotients(int numerator, double factor) {
  std::array<int, 256> table{};
  for (int i = 1; i < 256; ++i) {
    table[i] = static_cast<int>(std::lrint((numerator << kHsvShift) / (factor * i)));
  }
  return table;
}

// value / 2^bits, rounded to the nearest.
int Descale(int value, int bits) { return (value + (1 << (bits - 1))) >> bits; }

uint8_t Saturate(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

constexpr int kYcrcbShift = 14;

void BgrToYcrcb(Image* image) {
  constexpr int kHalf = 128 << kYcrcbShift;
  ForPixels(image, [](uint8_t* b, uint8_t* g, uint8_t* r) {
    const int y = Descale(*b * 1868 + *g * 9617 + *r * 4899, kYcrcbShift);
    const int cr = Descale((*r - y) * 11682 + kHalf, kYcrcbShift);
    const int cb = Descale((*b - y) * 9241 + kHalf, kYcrcbShift);
    *b = Saturate(y), *g = Saturate(cr), *r = Saturate(cb);
  });
}

void YcrcbToBgr(Image* image) {
  ForPixels(image, [](uint8_t* y, uint8_t* cr, uint8_t* cb) {
    const int value = *y, red = *cr - 128, blue = *cb - 128;
    *y = Saturate(value + Descale(blue * 29049, kYcrcbShift));
    *cr = Saturate(value + Descale(blue * -5636 + red * -11698, kYcrcbShift));
    *cb = Saturate(value + Descale(red * 22987, kYcrcbShift));
  });
}

// As cv::equalizeHist.
void Equalize(uint8_t* values, int64_t count) {
  std::array<int64_t, 256> histogram{};
  for (int64_t i = 0; i < count; ++i) ++histogram[values[i]];
  int level = 0;
  while (histogram[level] == 0) ++level;
  if (histogram[level] == count) return;  // one level only
  const float scale = 255.0f / static_cast<float>(count - histogram[level]);
  std::array<uint8_t, 256> table{};
  int64_t sum = 0;
  for (++level; level < 256; ++level) {
    sum += histogram[level];
    table[level] = ToByte(static_cast<float>(sum) * scale);
  }
  for (int64_t i = 0; i < count; ++i) values[i] = table[values[i]];
}

}  // namespace

void BgrToHsv(Image* image) {
  static const std::array<int, 256> saturation = Quotients(255, 1), hue = Quotients(180, 6);
  ForPixels(image, [](uint8_t* b, uint8_t* g, uint8_t* r) {
    const int value = std::max({*b, *g, *r}), range = value - std::min({*b, *g, *r});
    int sector = *r - *g + 4 * range;
    if (value == *g) sector = *b - *r + 2 * range;
    if (value == *r) sector = *g - *b;
    int h = Descale(sector * hue[range], kHsvShift);
    if (h < 0) h += 180;
    const int s = Descale(range * saturation[value], kHsvShift);
    *b = Saturate(h), *g = Saturate(s), *r = Saturate(value);
  });
}

void HsvToBgr(Image* image) {
  // Indices of the values below that blue, green and red have in each sixth of the circle.
  static constexpr uint8_t kSectors[6][3] = {{1, 3, 0}, {1, 0, 2}, {3, 0, 1},
                                             {0, 2, 1}, {0, 1, 3}, {2, 1, 0}};
  ForPixels(image, [](uint8_t* first, uint8_t* second, uint8_t* third) {
    const float s = static_cast<float>(*second) * (1.0f / 255);
    const float v = *third;
    float h = static_cast<float>(*first) * (6.0f / 180);
    if (h >= 6) h -= 6;
    const auto sector = static_cast<int>(h);
    h -= static_cast<float>(sector);
    const float values[] = {v, v * (1 - s), v * (1 - s * h), v * (1 - s * (1 - h))};
    // Half a unit rounds: the values are not negative.
    *first = static_cast<uint8_t>(values[kSectors[sector][0]] + 0.5f);
    *second = static_cast<uint8_t>(values[kSectors[sector][1]] + 0.5f);
    *third = static_cast<uint8_t>(values[kSectors[sector][2]] + 0.5f);
  });
}

void Decolorize(Image* image) {
  ForPixels(image, [](uint8_t* b, uint8_t* g, uint8_t* r) {
    *b = *g = *r = Saturate(Descale(*b * 3735 + *g * 19235 + *r * 9798, 15));
  });
}

void EqualizeHistogram(Image* image) {
  const int64_t plane = int64_t{image->height} * image->width;
  if (image->channels == 1) return Equalize(image->values.data(), plane);
  BgrToYcrcb(image);
  Equalize(image->values.data(), plane);
  YcrcbToBgr(image);
}

}  // namespace millrace::inline data
