#include "data/transformer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "data/mean_image.h"
#include "proto/parse.h"

namespace millrace {
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

Transformer::Transformer(const caffe::TransformationParameter& param, caffe::Phase phase,
                         uint64_t seed, uint64_t stream, const DatumView& first)
    : scale_(param.scale()),
      crop_(0),
      mirror_(param.mirror()),
      random_crop_(phase == caffe::TRAIN),
      seed_(seed),
      stream_(stream),
      input_{first.channels, first.height, first.width},
      output_(input_) {
  const auto shorter = static_cast<uint32_t>(std::min(input_.height, input_.width));
  if (param.crop_size() > shorter) {
    throw FieldError("transform_param.crop_size", "is ", param.crop_size(),
                     ", more than the images of ", input_.height, " x ", input_.width);
  }
  crop_ = static_cast<int>(param.crop_size());
  if (crop_ > 0) output_.height = output_.width = crop_;

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
      crop_ > 0 && mean_image_.empty() && datum.height >= crop_ && datum.width >= crop_;
  if (datum.channels == input_.channels && (same || croppable)) return;
  throw Error("is ", datum.channels, " x ", datum.height, " x ", datum.width, ", expected ",
              input_.channels, " x ", input_.height, " x ", input_.width, " like the first record");
}

Transformer::Choice Transformer::Choose(const DatumView& datum, uint64_t item) const {
  Choice choice;
  Rng rng(seed_, {kRngTransform, stream_, item});
  choice.mirror = mirror_ && rng.Below(2) == 1;
  if (crop_ == 0) return choice;
  const int room_y = datum.height - crop_, room_x = datum.width - crop_;
  choice.y = random_crop_ ? static_cast<int>(rng.Below(room_y + 1)) : room_y / 2;
  choice.x = random_crop_ ? static_cast<int>(rng.Below(room_x + 1)) : room_x / 2;
  return choice;
}

template <typename T>
void Transformer::Copy(const T* in, const DatumView& datum, const Choice& choice,
                       float* out) const {
  // An area that is contiguous in both arrays is copied as one row.
  const bool whole = !choice.mirror && datum.width == output_.width;
  const int64_t rows = whole ? 1 : output_.height;
  const int64_t length = whole ? int64_t{output_.height} * output_.width : output_.width;
  for (int c = 0; c < output_.channels; ++c) {
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t from = (int64_t{c} * datum.height + choice.y + y) * datum.width + choice.x;
      if (mean_image_.empty()) {
        WriteRow(choice.mirror, in + from, ConstantMean{mean_values_[c]}, scale_, length, out);
      } else {
        WriteRow(choice.mirror, in + from, MeanRow{&mean_image_[from]}, scale_, length, out);
      }
      out += length;
    }
  }
}

void Transformer::Apply(const DatumView& datum, uint64_t item, float* out) {
  CheckSize(datum);
  const bool random = mirror_ || crop_ > 0;
  const Choice choice = random ? Choose(datum, item) : Choice();
  if (!datum.data.empty()) {
    Copy(reinterpret_cast<const uint8_t*>(datum.data.data()), datum, choice, out);
    return;
  }
  floats_.resize(datum.float_count);
  CopyFloats(datum, floats_.data());
  Copy(floats_.data(), datum, choice, out);
}

}  // namespace millrace
