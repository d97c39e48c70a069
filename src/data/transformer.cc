#include "data/transformer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "data/images/mean_image.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

// The mean of a row of values: one constant, or one mean per value.
struct ConstantMean {
  float value;
  float operator[](int64_t) const { return value; }
};
using MeanRow = const float*;

template <typename T, typename Mean>
void CopyRow(const T* __restrict in, Mean mean, float scale, int64_t n, float* __restrict out) {
  // Blocks of constant size: at -O2 the compiler vectorises only these.
  constexpr int kBlock = 16;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int k = 0; k < kBlock; ++k) {
      out[i + k] = (static_cast<float>(in[i + k]) - mean[i + k]) * scale;
    }
  }
  for (; i < n; ++i) out[i] = (static_cast<float>(in[i]) - mean[i]) * scale;
}

template <typename T, typename Mean>
void MirrorRow(const T* in, Mean mean, float scale, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[n - 1 - i] = (static_cast<float>(in[i]) - mean[i]) * scale;
  }
}

template <typename T, typename Mean>
void WriteRow(bool mirror, const T* in, Mean mean, float scale, int64_t n, float* out) {
  if (mirror) {
    MirrorRow(in, mean, scale, n, out);
  } else {
    CopyRow(in, mean, scale, n, out);
  }
}

}  // namespace

void RefuseAnnotatedFields(const caffe::TransformationParameter& param, bool resizes) {
  const std::pair<const char*, bool> fields[] = {
      {"resize_param", param.has_resize_param() && !resizes},
      {"noise_param", param.has_noise_param() && !resizes},
      {"emit_constraint", param.has_emit_constraint()},
      {"distort_param", param.has_distort_param()},
      {"expand_param", param.has_expand_param()}};
  for (const auto& [field, given] : fields) {
    if (!given) continue;
    throw FieldError(
        StrCat("transform_param.", field),
        "given, expected none: a layer of this type does not read it, AnnotatedData does");
  }
}

Transformer::Transformer(const caffe::TransformationParameter& param, caffe::Phase phase,
                         uint64_t seed, uint64_t stream, const DatumView& first)
    : scale_(param.scale()),
      mirror_(param.mirror()),
      random_crop_(phase == caffe::TRAIN),
      seed_(seed),
      stream_(stream),
      input_{first.channels, first.height, first.width},
      output_(input_) {
  ReadCrop(param);

  const int values = param.mean_value_size();
  if (param.has_mean_file() && values > 0) {
    throw FieldError("transform_param.mean_value",
                     "is given together with mean_file, expected one of them");
  }
  if (values > 1 && values != input_.channels) {
    throw FieldError("transform_param.mean_value", "is given ", values,
                     " times, expected once or once for each of ", input_.channels, " channels");
  }
  mean_values_.assign(input_.channels, values == 1 ? param.mean_value(0) : 0.0f);
  if (values > 1) mean_values_.assign(param.mean_value().begin(), param.mean_value().end());
  if (param.has_mean_file()) LoadMean(param);
}

void Transformer::ReadCrop(const caffe::TransformationParameter& param) {
  uint32_t height = param.crop_size(), width = param.crop_size();
  const char* field = "transform_param.crop_size";
  if (height == 0) {
    field = "transform_param.crop_h";
    height = param.crop_h(), width = param.crop_w();
    if ((height == 0) != (width == 0)) {
      throw FieldError(height == 0 ? field : "transform_param.crop_w",
                       "is 0 or missing, expected crop_h and crop_w together");
    }
  } else if (param.crop_h() > 0 || param.crop_w() > 0) {
    throw FieldError(field, "is given together with crop_h or crop_w, expected one of them");
  }
  if (height > static_cast<uint32_t>(input_.height) ||
      width > static_cast<uint32_t>(input_.width)) {
    throw FieldError(field, "is ", height, height == width ? "" : StrCat(" and crop_w ", width),
                     ", more than the images of ", input_.height, " x ", input_.width);
  }
  if (height == 0) return;
  output_.height = crop_height_ = static_cast<int>(height);
  output_.width = crop_width_ = static_cast<int>(width);
}

void Transformer::LoadMean(const caffe::TransformationParameter& param) {
  const std::string& path = param.mean_file();
  MeanImage mean;
  try {
    mean = LoadMeanImage(path);
  } catch (const Error& error) {
    throw FieldError("transform_param.mean_file", error.what());
  }
  if (mean.channels != input_.channels || mean.height != input_.height ||
      mean.width != input_.width) {
    throw FieldError("transform_param.mean_file", path, ": holds an image of ", mean.channels,
                     " x ", mean.height, " x ", mean.width, ", expected ", input_.channels, " x ",
                     input_.height, " x ", input_.width);
  }
  mean_image_ = std::move(mean.values);
}

void Transformer::CheckSize(const DatumView& datum) const {
  const bool same = datum.height == input_.height && datum.width == input_.width;
  const bool croppable =
      crops() && mean_image_.empty() && datum.height >= crop_height_ && datum.width >= crop_width_;
  if (datum.channels == input_.channels && (same || croppable)) return;
  throw Error("is ", datum.channels, " x ", datum.height, " x ", datum.width, ", expected ",
              input_.channels, " x ", input_.height, " x ", input_.width, " like the first record");
}

ImageSize Transformer::OutputOf(const DatumView& datum) const {
  if (datum.channels != input_.channels) {
    throw Error("has ", datum.channels, " channels, expected ", input_.channels,
                " like the first record");
  }
  if (!mean_image_.empty()) CheckSize(datum);
  if (!crops()) return {datum.channels, datum.height, datum.width};
  if (datum.height < crop_height_ || datum.width < crop_width_) {
    throw Error("is ", datum.height, " x ", datum.width, ", expected at least ", crop_height_,
                " x ", crop_width_, " for the crop");
  }
  return output_;
}

TransformChoice Transformer::Choose(const DatumView& datum, uint64_t item) const {
  TransformChoice choice;
  if (!mirror_ && !crops()) return choice;
  Rng rng(seed_, {kRngTransform, stream_, item});
  choice.mirror = mirror_ && rng.Below(2) == 1;
  if (!crops()) return choice;
  const int room_y = datum.height - crop_height_, room_x = datum.width - crop_width_;
  choice.y = random_crop_ ? static_cast<int>(rng.Below(room_y + 1)) : room_y / 2;
  choice.x = random_crop_ ? static_cast<int>(rng.Below(room_x + 1)) : room_x / 2;
  return choice;
}

template <typename Body>
void Transformer::ForEachRow(const DatumView& datum, const TransformChoice& choice, bool mirrors,
                             Body body) const {
  const int64_t height = crops() ? crop_height_ : datum.height;
  const int64_t width = crops() ? crop_width_ : datum.width;
  const bool whole = !mirrors && datum.width == width;
  const int64_t rows = whole ? 1 : height;
  const int64_t length = whole ? height * width : width;
  for (int c = 0; c < output_.channels; ++c) {
    for (int64_t y = 0; y < rows; ++y) {
      body(c, (int64_t{c} * datum.height + choice.y + y) * datum.width + choice.x, length);
    }
  }
}

template <typename T>
void Transformer::Copy(const T* in, const DatumView& datum, const TransformChoice& choice,
                       float* out) const {
  ForEachRow(datum, choice, choice.mirror, [&](int c, int64_t from, int64_t length) {
    if (mean_image_.empty()) {
      WriteRow(choice.mirror, in + from, ConstantMean{mean_values_[c]}, scale_, length, out);
    } else {
      WriteRow(choice.mirror, in + from, MeanRow{&mean_image_[from]}, scale_, length, out);
    }
    out += length;
  });
}

void Transformer::Apply(const DatumView& datum, uint64_t item, float* out) {
  CheckSize(datum);
  Write(datum, Choose(datum, item), out);
}

PixelRule Transformer::pixel_rule() const {
  PixelRule rule;
  rule.size = output_;
  rule.scale = scale_;
  rule.mean = mean_image_.empty() ? mean_values_ : mean_image_;
  if (!mean_image_.empty()) rule.mean_size = input_;
  return rule;
}

bool Transformer::ApplyPixels(const DatumView& datum, uint64_t item, uint8_t* pixels,
                              TransformChoice* choice) const {
  CheckSize(datum);
  if (datum.data.empty()) return false;
  *choice = Choose(datum, item);
  ForEachRow(datum, *choice, false, [&](int, int64_t from, int64_t length) {
    std::memcpy(pixels, datum.data.data() + from, length);
    pixels += length;
  });
  return true;
}

void Transformer::Write(const DatumView& datum, const TransformChoice& choice, float* out) {
  if (!datum.data.empty()) {
    Copy(reinterpret_cast<const uint8_t*>(datum.data.data()), datum, choice, out);
    return;
  }
  floats_.resize(datum.float_count);
  CopyFloats(datum, floats_.data());
  Copy(floats_.data(), datum, choice, out);
}

}  // namespace millrace::inline data
