#include "data/images/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/images/color.h"
#include "data/images/image_encoder.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

std::string Field(const char* name) { return StrCat("transform_param.noise_param.", name); }

// The index in [0, size) of the pixel that stands for `at`: mirrored at the border pixels.
int Mirrored(int at, int size) {
  if (size == 1) return 0;
  while (at < 0 || at >= size) at = at < 0 ? -at : 2 * (size - 1) - at;
  return at;
}

constexpr int kBlurReach = 3;

std::array<float, 2 * kBlurReach + 1> BlurWeights() {
  constexpr double kSigma = 1.5;
  std::array<float, 2 * kBlurReach + 1> weights{};
  double sum = 0;
  for (int k = -kBlurReach; k <= kBlurReach; ++k) sum += std::exp(-k * k / (2 * kSigma * kSigma));
  for (int k = -kBlurReach; k <= kBlurReach; ++k) {
    weights[k + kBlurReach] = static_cast<float>(std::exp(-k * k / (2 * kSigma * kSigma)) / sum);
  }
  return weights;
}

void Blur(Image* image) {
  const auto weights = BlurWeights();
  const int height = image->height, width = image->width;
  std::vector<float> rows(static_cast<size_t>(height) * width);
  for (int c = 0; c < image->channels; ++c) {
    uint8_t* const plane = image->values.data() + int64_t{c} * height * width;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        float sum = 0;
        for (int k = -kBlurReach; k <= kBlurReach; ++k) {
          sum += weights[k + kBlurReach] *
                 static_cast<float>(plane[int64_t{y} * width + Mirrored(x + k, width)]);
        }
        rows[int64_t{y} * width + x] = sum;
      }
    }
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        float sum = 0;
        for (int k = -kBlurReach; k <= kBlurReach; ++k) {
          sum += weights[k + kBlurReach] * rows[int64_t{Mirrored(y + k, height)} * width + x];
        }
        plane[int64_t{y} * width + x] = ToByte(sum);
      }
    }
  }
}

// The least of a pixel and its four neighbours.
void Erode(Image* image) {
  const int height = image->height, width = image->width;
  const std::vector<uint8_t> from = image->values;
  for (int64_t i = 0; i < std::ssize(from); ++i) {
    const int64_t x = i % width, y = i / width % height;
    uint8_t least = from[i];
    if (x > 0) least = std::min(least, from[i - 1]);
    if (x + 1 < width) least = std::min(least, from[i + 1]);
    if (y > 0) least = std::min(least, from[i - width]);
    if (y + 1 < height) least = std::min(least, from[i + width]);
    image->values[i] = least;
  }
}

}  // namespace

Noise::Noise(const caffe::NoiseParameter& param, int channels)
    : param_(param), decoder_(channels == 1 ? ImageColor::kGray : ImageColor::kColor) {
  const std::pair<const char*, bool> absent[] = {{"clahe", param.clahe()},
                                                 {"convert_to_lab", param.convert_to_lab()}};
  for (const auto& [name, given] : absent) {
    if (given)
      throw FieldError(Field(name), "true given, expected false: Millrace has no such one");
  }
  const std::pair<const char*, bool> of_colours[] = {{"decolorize", param.decolorize()},
                                                     {"convert_to_hsv", param.convert_to_hsv()}};
  for (const auto& [name, given] : of_colours) {
    if (given && channels != 3) {
      throw FieldError(Field(name), "true given, but images have ", channels,
                       " channels, expected 3");
    }
  }
  if ((param.hist_eq() || param.jpeg() > 0) && channels != 1 && channels != 3) {
    throw FieldError(Field(param.hist_eq() ? "hist_eq" : "jpeg"), "given, but images have ",
                     channels, " channels, expected 1 or 3");
  }
  if (param.jpeg() > 100) {
    throw FieldError(Field("jpeg"), param.jpeg(), " given, expected a quality of at most 100");
  }
  if (!param.saltpepper()) return;
  const caffe::SaltPepperParameter& salt = param.saltpepper_param();
  if (!(salt.fraction() >= 0 && salt.fraction() <= 1)) {
    throw FieldError(Field("saltpepper_param.fraction"), salt.fraction(),
                     " given, expected 0 to 1");
  }
  if (salt.value_size() != 1 && salt.value_size() != channels) {
    throw FieldError(Field("saltpepper_param.value"), "is given ", salt.value_size(),
                     " times, expected once or once for each of ", channels, " channels");
  }
}

void Noise::Apply(Rng* rng, Image* image) {
  if (param_.decolorize()) Decolorize(image);
  if (param_.gauss_blur()) Blur(image);
  if (param_.hist_eq()) EqualizeHistogram(image);
  if (param_.jpeg() > 0) {
    *image =
        decoder_.Decode(EncodeImage(*image, ImageFormat::kJpeg, static_cast<int>(param_.jpeg())));
  }
  if (param_.erode()) Erode(image);
  for (uint8_t& value : image->values) {
    constexpr int kLevel = 64;
    if (param_.posterize()) value = static_cast<uint8_t>(value / kLevel * kLevel + kLevel / 2);
    if (param_.inverse()) value = static_cast<uint8_t>(~value);
  }
  if (param_.saltpepper()) SaltAndPepper(rng, image);
  if (param_.convert_to_hsv()) BgrToHsv(image);
}

void Noise::SaltAndPepper(Rng* rng, Image* image) const {
  const caffe::SaltPepperParameter& param = param_.saltpepper_param();
  const int64_t plane = int64_t{image->height} * image->width;
  const auto pixels = static_cast<int64_t>(param.fraction() * static_cast<float>(plane));
  for (int64_t i = 0; i < pixels; ++i) {
    const auto at = static_cast<int64_t>(rng->Below(plane));
    for (int c = 0; c < image->channels; ++c) {
      image->values[c * plane + at] = ToByte(param.value(param.value_size() == 1 ? 0 : c));
    }
  }
}

}  // namespace millrace::inline data
