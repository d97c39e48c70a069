#include "contrib/annotated/annotated_transform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "contrib/annotated/object.h"
#include "data/datum_view.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline contrib {
namespace {

constexpr int kRow = 8;  // numbers of a box in the second top

void CheckExpansion(const caffe::TransformationParameter& param) {
  if (!param.has_expand_param()) return;
  constexpr float kLargest = 100;
  const float ratio = param.expand_param().max_expand_ratio();
  if (!(ratio > 1 && ratio <= kLargest)) {
    throw FieldError("transform_param.expand_param.max_expand_ratio", ratio,
                     " given or missing, expected more than 1, at most ", kLargest);
  }
  if (param.has_mean_file()) {
    throw FieldError("transform_param.mean_file",
                     "given, expected mean_value, with which expand_param fills the canvas");
  }
}

// The part of `image` with the corner (x, y).
void CutImage(int y, int x, int height, int width, Image* image) {
  Image part;
  ResizeImage(image->channels, height, width, &part);
  uint8_t* to = part.values.data();
  for (int c = 0; c < image->channels; ++c) {
    for (int row = y; row < y + height; ++row) {
      const int64_t begin = (int64_t{c} * image->height + row) * image->width + x;
      to = std::copy_n(image->values.data() + begin, width, to);
    }
  }
  std::swap(*image, part);
}

}  // namespace

AnnotatedTransform::AnnotatedTransform(const caffe::LayerParameter& layer, caffe::Phase phase,
                                       uint64_t seed, uint64_t stream, const std::string& path,
                                       const RecordView& first)
    : param_(layer.transform_param()),
      annotated_(layer.annotated_data_param()),
      batch_size_(layer.data_param().batch_size()),
      seed_(seed),
      stream_(stream),
      sampler_(annotated_),
      reader_(ImageReading::Of(param_)) {
  CheckExpansion(param_);
  Example example;
  try {
    Read(path, first, &example);
  } catch (const Error& error) {
    throw FieldError("data_param.source", error.what());
  }
  Image& image = example.image;
  if (param_.has_distort_param()) distortion_.emplace(param_.distort_param(), image.channels);
  if (param_.has_noise_param()) noise_.emplace(param_.noise_param(), image.channels);
  if (param_.has_resize_param()) {
    resize_.emplace(param_.resize_param(), image.channels);
    if (!resize_->constant_size() && batch_size_ != 1) {
      throw FieldError("transform_param.resize_param.resize_mode",
                       "FIT_SMALL_SIZE given, which gives every image a size of its own; expected "
                       "a batch_size of 1, not ",
                       batch_size_);
    }
  }
  DatumView view = PixelsOf(image);
  if (resize_) {
    const ResizePolicy::Size size = resize_->SizeOf(image.height, image.width);
    view.height = size.height, view.width = size.width;
  }
  transformer_.emplace(param_, phase, seed, stream, view);
  const ImageSize& output = transformer_->output();
  const auto boxes = std::max<int64_t>(std::ssize(example.objects), 1);
  first_shapes_ = {{batch_size_, output.channels, output.height, output.width},
                   has_boxes_ ? Shape{1, 1, boxes, kRow} : Shape{batch_size_, 1, 1, 1}};
  shapes_ = first_shapes_;
}

void AnnotatedTransform::Read(const std::string& source, const RecordView& record,
                              Example* example) {
  const std::string name = RecordName(source, record.key);
  caffe::AnnotatedDatum annotated;
  if (!annotated.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())) ||
      !annotated.has_datum()) {
    throw Error(name, ": is not an AnnotatedDatum, as convert_annoset makes them");
  }
  const std::string bytes = annotated.datum().SerializeAsString();
  const DatumView pixels = reader_.Read(source, record.key, bytes);
  if (pixels.data.empty()) throw Error(name, ": holds floats, expected bytes or an image file");
  Image& image = example->image;
  ResizeImage(pixels.channels, pixels.height, pixels.width, &image);
  std::copy(pixels.data.begin(), pixels.data.end(), image.values.begin());
  example->label = annotated.datum().label();
  example->objects.clear();
  // The first record, or the layer, decides what all of them are.
  if (!transformer_) has_boxes_ = annotated.has_type() || annotated_.has_anno_type();
  if (!has_boxes_) return;
  if (!annotated.has_type() && !annotated_.has_anno_type()) {
    throw Error(name, ": has no type of annotation, expected one, as the first record has");
  }
  for (const caffe::AnnotationGroup& group : annotated.annotation_group()) {
    for (const caffe::Annotation& each : group.annotation()) {
      const caffe::NormalizedBBox& box = each.bbox();
      example->objects.push_back({group.group_label(),
                                  each.instance_id(),
                                  {box.xmin(), box.ymin(), box.xmax(), box.ymax()},
                                  box.difficult()});
    }
  }
}

void AnnotatedTransform::Add(const std::string& source, const RecordView& record, uint64_t item) {
  if (added_ == examples_.size()) examples_.emplace_back();
  Example& example = examples_[added_];
  Read(source, record, &example);
  try {
    Change(item, &example);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
  ++added_;
}

void AnnotatedTransform::Change(uint64_t item, Example* example) {
  Rng rng(seed_, {kRngAugment, stream_, item});
  Image& image = example->image;
  const int64_t channels = shapes_[0][1];
  if (image.channels != channels) {
    throw Error("has ", image.channels, " channels, expected ", channels, " like the first record");
  }
  if (distortion_) distortion_->Apply(&rng, &image);
  if (param_.has_expand_param()) Expand(&rng, example);
  CutToSample(&rng, example);
  const int height = image.height, width = image.width;
  if (resize_) resize_->Apply(&rng, &image);
  if (noise_) noise_->Apply(&rng, &image);
  const DatumView view = PixelsOf(image);
  const ImageSize output = transformer_->OutputOf(view);
  example->choice = transformer_->Choose(view, item);
  FinishBoxes(height, width, output, example);
  UpdateShapes(output);
}

void AnnotatedTransform::Expand(Rng* rng, Example* example) const {
  constexpr float kMinChange = 1e-2f;
  const caffe::ExpansionParameter& expansion = param_.expand_param();
  if (rng->Uniform() > expansion.prob()) return;
  if (expansion.max_expand_ratio() - 1 < kMinChange) return;
  const float ratio = UniformIn(1, expansion.max_expand_ratio(), rng);
  const Image& image = example->image;
  Image canvas;
  ResizeImage(image.channels, static_cast<int64_t>(static_cast<float>(image.height) * ratio),
              static_cast<int64_t>(static_cast<float>(image.width) * ratio), &canvas);
  const auto y =
      static_cast<int>(UniformIn(0, static_cast<float>(canvas.height - image.height), rng));
  const auto x =
      static_cast<int>(UniformIn(0, static_cast<float>(canvas.width - image.width), rng));
  const int64_t plane = int64_t{canvas.height} * canvas.width;
  const uint8_t* from = image.values.data();
  for (int c = 0; c < image.channels; ++c) {
    const int means = param_.mean_value_size();
    const float mean = means == 0 ? 0 : param_.mean_value(means == 1 ? 0 : c);
    uint8_t* const to = canvas.values.data() + c * plane;
    std::fill_n(to, plane, ToByte(mean));
    for (int row = 0; row < image.height; ++row) {
      std::copy_n(from, image.width, to + int64_t{y + row} * canvas.width + x);
      from += image.width;
    }
  }
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  Cut({static_cast<float>(-x) / width, static_cast<float>(-y) / height,
       static_cast<float>(canvas.width - x) / width,
       static_cast<float>(canvas.height - y) / height},
      &example->objects);
  std::swap(example->image, canvas);
}

void AnnotatedTransform::CutToSample(Rng* rng, Example* example) const {
  const std::vector<Box> boxes = sampler_.Sample(example->objects, rng);
  if (boxes.empty()) return;
  const Box box = Clip(boxes[rng->Below(boxes.size())]);
  const auto height = static_cast<float>(example->image.height);
  const auto width = static_cast<float>(example->image.width);
  // Whole pixels, at least one.
  const int x = std::min(static_cast<int>(box.xmin * width), example->image.width - 1);
  const int y = std::min(static_cast<int>(box.ymin * height), example->image.height - 1);
  const int columns = std::clamp(static_cast<int>(box.xmax * width - box.xmin * width), 1,
                                 example->image.width - x);
  const int rows = std::clamp(static_cast<int>(box.ymax * height - box.ymin * height), 1,
                              example->image.height - y);
  CutImage(y, x, rows, columns, &example->image);
  Cut(box, &example->objects);
}

void AnnotatedTransform::Cut(const Box& frame, std::vector<Object>* objects) const {
  std::erase_if(*objects, [&](Object& each) {
    if (param_.has_emit_constraint() &&
        !MeetsConstraint(param_.emit_constraint(), frame, each.box)) {
      return true;
    }
    return !Project(frame, each.box, &each.box);
  });
}

void AnnotatedTransform::FinishBoxes(int height, int width, const ImageSize& output,
                                     Example* example) const {
  const auto image_height = static_cast<float>(example->image.height);
  const auto image_width = static_cast<float>(example->image.width);
  const auto x = static_cast<float>(example->choice.x), y = static_cast<float>(example->choice.y);
  const Box crop{x / image_width, y / image_height,
                 (x + static_cast<float>(output.width)) / image_width,
                 (y + static_cast<float>(output.height)) / image_height};
  if (resize_) {
    for (Object& each : example->objects) each.box = resize_->Move(each.box, height, width);
  }
  Cut(crop, &example->objects);
  for (Object& each : example->objects) {
    if (example->choice.mirror) {
      each.box = {1 - each.box.xmax, each.box.ymin, 1 - each.box.xmin, each.box.ymax};
    }
    if (resize_) each.box = resize_->Extrapolate(each.box, crop, height, width);
  }
}

void AnnotatedTransform::UpdateShapes(const ImageSize& size) {
  const Shape shape = {batch_size_, size.channels, size.height, size.width};
  // A batch of one may have a size of its own.
  if (batch_size_ > 1 && shape != first_shapes_[0]) {
    throw Error("is ", size.height, " x ", size.width, " after its changes, expected ",
                first_shapes_[0][2], " x ", first_shapes_[0][3],
                " like the first record; resize_param makes images alike");
  }
  shapes_[0] = shape;
  if (!has_boxes_) return;
  int64_t boxes = 0;
  for (size_t i = 0; i <= added_; ++i) boxes += std::ssize(examples_[i].objects);
  shapes_[1] = {1, 1, std::max<int64_t>(boxes, 1), kRow};
}

void AnnotatedTransform::Write(float* const* tops) {
  float* image = tops[0];
  float* next = tops[1];
  for (size_t i = 0; i < added_; ++i) {
    const Example& example = examples_[i];
    transformer_->Write(PixelsOf(example.image), example.choice, image);
    image += ShapeCount(shapes_[0]) / batch_size_;
    if (!has_boxes_) *next++ = static_cast<float>(example.label);
    for (const Object& each : example.objects) {
      for (const float number :
           {static_cast<float>(i), static_cast<float>(each.label),
            static_cast<float>(each.instance), each.box.xmin, each.box.ymin, each.box.xmax,
            each.box.ymax, static_cast<float>(each.difficult)}) {
        *next++ = number;
      }
    }
  }
  if (has_boxes_ && next == tops[1]) std::fill_n(next, kRow, -1.0f);
  added_ = 0;
}

}  // namespace millrace::inline contrib
