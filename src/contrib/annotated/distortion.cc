#include "contrib/annotated/distortion.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "contrib/annotated/object.h"
#include "data/images/color.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline contrib {
namespace {

std::string Field(const char* name) { return StrCat("transform_param.distort_param.", name); }

void CheckDelta(const char* name, float prob, float delta) {
  if (prob > 0 && !(delta >= 0)) {
    throw FieldError(Field(name), delta, " given, expected 0 or more");
  }
}

void CheckRange(const char* name, float prob, float lower, float upper) {
  if (prob > 0 && !(lower >= 0 && lower <= upper)) {
    throw FieldError(Field(name), lower, " given and the upper bound ", upper,
                     ", expected 0 <= lower <= upper");
  }
}

// value = factor * value + shift, for all values of channels [first, first + count).
void Adjust(float factor, float shift, int first, int count, Image* image) {
  uint8_t table[256];
  for (int i = 0; i < 256; ++i) table[i] = ToByte(static_cast<float>(i) * factor + shift);
  const int64_t plane = int64_t{image->height} * image->width;
  uint8_t* const values = image->values.data() + first * plane;
  for (int64_t i = 0; i < count * plane; ++i) values[i] = table[values[i]];
}

}  // namespace

Distortion::Distortion(const caffe::DistortionParameter& param, int channels) : param_(param) {
  CheckDelta("brightness_delta", param.brightness_prob(), param.brightness_delta());
  CheckRange("contrast_lower", param.contrast_prob(), param.contrast_lower(),
             param.contrast_upper());
  CheckRange("saturation_lower", param.saturation_prob(), param.saturation_lower(),
             param.saturation_upper());
  CheckDelta("hue_delta", param.hue_prob(), param.hue_delta());
  const std::pair<const char*, float> of_colours[] = {
      {"saturation_prob", param.saturation_prob()},
      {"hue_prob", param.hue_prob()},
      {"random_order_prob", param.random_order_prob()}};
  for (const auto& [name, prob] : of_colours) {
    if (prob > 0 && channels != 3) {
      throw FieldError(Field(name), prob, " given, but images have ", channels,
                       " channels, expected 3");
    }
  }
}

void Distortion::Apply(Rng* rng, Image* image) const {
  const bool contrast_early = rng->Uniform() > 0.5f;
  Brightness(rng, image);
  if (contrast_early) Contrast(rng, image);
  Saturation(rng, image);
  Hue(rng, image);
  if (!contrast_early) Contrast(rng, image);
  Order(rng, image);
}

void Distortion::Brightness(Rng* rng, Image* image) const {
  if (rng->Uniform() >= param_.brightness_prob()) return;
  const float delta = UniformIn(-param_.brightness_delta(), param_.brightness_delta(), rng);
  Adjust(1, delta, 0, image->channels, image);
}

void Distortion::Contrast(Rng* rng, Image* image) const {
  if (rng->Uniform() >= param_.contrast_prob()) return;
  const float factor = UniformIn(param_.contrast_lower(), param_.contrast_upper(), rng);
  Adjust(factor, 0, 0, image->channels, image);
}

void Distortion::Saturation(Rng* rng, Image* image) const {
  if (rng->Uniform() >= param_.saturation_prob()) return;
  const float factor = UniformIn(param_.saturation_lower(), param_.saturation_upper(), rng);
  BgrToHsv(image);
  Adjust(factor, 0, 1, 1, image);
  HsvToBgr(image);
}

void Distortion::Hue(Rng* rng, Image* image) const {
  if (rng->Uniform() >= param_.hue_prob()) return;
  const float delta = UniformIn(-param_.hue_delta(), param_.hue_delta(), rng);
  BgrToHsv(image);
  Adjust(1, delta, 0, 1, image);
  HsvToBgr(image);
}

void Distortion::Order(Rng* rng, Image* image) const {
  if (rng->Uniform() >= param_.random_order_prob()) return;
  const int64_t plane = int64_t{image->height} * image->width;
  for (int i = image->channels; i > 1; --i) {
    const auto other = static_cast<int64_t>(rng->Below(i));
    uint8_t* const last = image->values.data() + (i - 1) * plane;
    std::swap_ranges(last, last + (other == i - 1 ? 0 : plane),
                     image->values.data() + other * plane);
  }
}

}  // namespace millrace::inline contrib
