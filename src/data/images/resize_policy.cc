#include "data/images/resize_policy.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

Interpolation InterpolationOf(caffe::ResizeParameter::Interp_mode mode) {
  switch (mode) {
    case caffe::ResizeParameter::AREA:
      return Interpolation::kArea;
    case caffe::ResizeParameter::NEAREST:
      return Interpolation::kNearest;
    case caffe::ResizeParameter::CUBIC:
      return Interpolation::kCubic;
    case caffe::ResizeParameter::LANCZOS4:
      return Interpolation::kLanczos4;
    case caffe::ResizeParameter::LINEAR:
      break;
  }
  return Interpolation::kLinear;
}

float Ratio(int height, int width) {
  return static_cast<float>(width) / static_cast<float>(height);
}

// The index in [0, size) of the pixel that stands for `at`, which lies outside; -1: none does.
int BorderPixel(int at, int size, caffe::ResizeParameter::Pad_mode mode) {
  if (mode == caffe::ResizeParameter::CONSTANT) return -1;
  if (mode == caffe::ResizeParameter::REPEAT_NEAREST || size == 1) {
    return std::clamp(at, 0, size - 1);
  }
  while (at < 0 || at >= size) at = at < 0 ? -at : 2 * (size - 1) - at;
  return at;
}

}  // namespace

ResizePolicy::ResizePolicy(const caffe::ResizeParameter& param, int channels) : param_(param) {
  const std::pair<const char*, uint32_t> sides[] = {{"height", param.height()},
                                                    {"width", param.width()}};
  for (const auto& [name, side] : sides) {
    if (side >= 1 && side <= kMaxResizedSide) continue;
    throw FieldError(StrCat("transform_param.resize_param.", name), side,
                     " given or missing, expected 1 to ", kMaxResizedSide);
  }
  const int values = param.pad_value_size();
  if (values > 1 && values != channels) {
    throw FieldError("transform_param.resize_param.pad_value", "is given ", values,
                     " times, expected once or once for each of ", channels, " channels");
  }
}

ResizePolicy::Size ResizePolicy::Inner(int height, int width) const {
  const auto new_height = static_cast<int>(param_.height());
  const auto new_width = static_cast<int>(param_.width());
  if (param_.resize_mode() == caffe::ResizeParameter::WARP) return {new_height, new_width};
  const float ratio = Ratio(height, width), new_ratio = Ratio(new_height, new_width);
  const bool keeps_width = pads() ? ratio > new_ratio : ratio < new_ratio;
  const float side =
      keeps_width ? static_cast<float>(new_width) / ratio : ratio * static_cast<float>(new_height);
  constexpr float kMaxPixels = kMaxImagePixels;
  const int other = std::max(1, static_cast<int>(std::min(side, kMaxPixels)));
  return keeps_width ? Size{other, new_width} : Size{new_height, other};
}

ResizePolicy::Size ResizePolicy::SizeOf(int height, int width) const {
  if (!constant_size()) return Inner(height, width);
  return {static_cast<int>(param_.height()), static_cast<int>(param_.width())};
}

void ResizePolicy::Apply(Rng* rng, Image* image) {
  Interpolation interpolation = Interpolation::kLinear;
  if (param_.interp_mode_size() > 0) {
    const auto drawn = static_cast<int>(rng->Below(param_.interp_mode_size()));
    interpolation = InterpolationOf(param_.interp_mode(drawn));
  }
  const Size size = Inner(image->height, image->width);
  resampler_.Resize(*image, size.height, size.width, interpolation, &resized_);
  if (pads()) {
    Pad(resized_, &padded_);
    std::swap(*image, padded_);
  } else {
    std::swap(*image, resized_);
  }
}

void ResizePolicy::Pad(const Image& from, Image* to) const {
  ResizeImage(from.channels, param_.height(), param_.width(), to);
  const int top = (to->height - from.height) / 2, left = (to->width - from.width) / 2;
  uint8_t* next = to->values.data();
  for (int c = 0; c < from.channels; ++c) {
    const int values = param_.pad_value_size();
    const float value = values == 0 ? 0 : param_.pad_value(values == 1 ? 0 : c);
    const uint8_t* const plane = from.values.data() + int64_t{c} * from.height * from.width;
    for (int y = 0; y < to->height; ++y) {
      const bool inside = y >= top && y < top + from.height;
      const int row = inside ? y - top : BorderPixel(y - top, from.height, param_.pad_mode());
      for (int x = 0; x < to->width; ++x) {
        const bool within = x >= left && x < left + from.width;
        const int column = within ? x - left : BorderPixel(x - left, from.width, param_.pad_mode());
        const bool none = row < 0 || column < 0;
        *next++ = none ? ToByte(value) : plane[int64_t{row} * from.width + column];
      }
    }
  }
}

Box ResizePolicy::Move(const Box& box, int height, int width) const {
  // The part of the new image that is not border, exactly, not in whole pixels.
  float share_x = 1, share_y = 1;
  if (pads()) {
    const float ratio = Ratio(height, width) /
                        Ratio(static_cast<int>(param_.height()), static_cast<int>(param_.width()));
    (ratio > 1 ? share_y : share_x) = ratio > 1 ? 1 / ratio : ratio;
  }
  const auto begin = [](float value, float share) {
    return (1 - share) / 2 + std::max(0.0f, value * share);
  };
  const auto end = [](float value, float share) {
    return (1 - share) / 2 + std::min(1.0f, value * share);
  };
  return {begin(box.xmin, share_x), begin(box.ymin, share_y), end(box.xmax, share_x),
          end(box.ymax, share_y)};
}

Box ResizePolicy::Extrapolate(const Box& box, const Box& crop, int height, int width) const {
  const auto unit_height = static_cast<float>(param_.height_scale());
  const auto unit_width = static_cast<float>(param_.width_scale());
  if (constant_size() || unit_height == 0 || unit_width == 0) return box;
  const float ratio = Ratio(height, width);
  auto new_height = static_cast<float>(param_.height());
  auto new_width = static_cast<float>(param_.width());
  if (ratio < new_width / new_height) {
    new_height = new_width / ratio;
  } else {
    new_width = new_height * ratio;
  }
  const float crop_height = new_height * (crop.ymax - crop.ymin);
  const float crop_width = new_width * (crop.xmax - crop.xmin);
  if (crop_height < unit_height || crop_width < unit_width) {
    throw Error("has a crop of ", crop_height, " x ", crop_width,
                ", expected at least height_scale x width_scale, ", unit_height, " x ", unit_width);
  }
  const float x = crop_width / unit_width, y = crop_height / unit_height;
  return {box.xmin * x, box.ymin * y, box.xmax * x, box.ymax * y};
}

}  // namespace millrace::inline data
