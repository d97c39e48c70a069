// Prior boxes of SSD (Liu and others 2016): at each cell of a feature map, boxes of several sizes
// and aspect ratios. They depend on shapes alone. Bottoms: the feature map {.., .., H, W}; the
// image
// {.., .., h, w}, which is not needed if img_size, or img_h and img_w, are given.
//
// With step_w = w / W, or as given, and the same for heights, the centre of the boxes of cell (i,
// j) is ((j + offset) * step_w, (i + offset) * step_h) pixels. For each min_size s (a whole number
// of pixels; others are truncated, as in SSD), in this order:
//   s x s;  if there are max_sizes m: sqrt(s m) squared;  then for each aspect ratio r other than
//   1, with flip followed by 1 / r:  s sqrt(r) x s / sqrt(r)
// Aspect ratios that are there already are skipped.
//
// top {1, 2, H * W * boxes * 4}: xmin, ymin, xmax, ymax of each box, as shares of the image, with
// clip limited to [0, 1]; then as many variances: `variance`, one number or four; default 0.1.
#include <algorithm>
#include <cmath>
#include <vector>

#include "contrib/detection/boxes.h"
#include "millrace/layer.h"

namespace millrace::inline contrib {
namespace {

class PriorBoxLayer : public Layer {
 public:
  PriorBoxLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), boxes_(memory()) {}

  Arity arity() const override { return {1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"prior_box_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  struct Size {
    float width, height;
    bool operator==(const Size&) const = default;
  };

  // The boxes of one cell, in pixels.
  std::vector<Size> SizesOfCell() const;
  std::vector<float> Compute(const Size& map, const Size& image) const;

  std::vector<Size> sizes_;
  Size map_{0, 0}, image_{0, 0};  // that boxes_ was computed for
  Blob boxes_;                    // the values of the top
};

using caffe::PriorBoxParameter;

constexpr float kSameRatio = 1e-6f;

void CheckPositive(const char* field, double value) {
  if (value > 0) return;
  throw FieldError(StrCat("prior_box_param.", field), value, " given, expected more than 0");
}

void CheckSizes(const PriorBoxParameter& param) {
  if (param.min_size_size() == 0) {
    throw FieldError("prior_box_param.min_size", "missing, expected at least one");
  }
  for (const float size : param.min_size()) CheckPositive("min_size", size);
  for (const float ratio : param.aspect_ratio()) CheckPositive("aspect_ratio", ratio);
  if (param.max_size_size() == 0) return;
  if (param.max_size_size() != param.min_size_size()) {
    throw FieldError("prior_box_param.max_size", param.max_size_size(),
                     " given, expected none or one per min_size: ", param.min_size_size());
  }
  for (int i = 0; i < param.max_size_size(); ++i) {
    if (param.max_size(i) > param.min_size(i)) continue;
    throw FieldError(StrCat("prior_box_param.max_size[", i, "]"), param.max_size(i),
                     " given, expected more than min_size[", i, "]: ", param.min_size(i));
  }
}

void CheckVariance(const PriorBoxParameter& param) {
  const int given = param.variance_size();
  if (given > 1 && given != 4) {
    throw FieldError("prior_box_param.variance", given, " given, expected none, one or four");
  }
  for (const float variance : param.variance()) CheckPositive("variance", variance);
}

void CheckImageAndStep(const PriorBoxParameter& param) {
  if (param.has_img_h() || param.has_img_w()) {
    if (param.has_img_size()) {
      throw FieldError("prior_box_param.img_size", "given beside img_h or img_w");
    }
    CheckPositive("img_h", param.img_h());
    CheckPositive("img_w", param.img_w());
  } else if (param.has_img_size()) {
    CheckPositive("img_size", param.img_size());
  }
  if (param.has_step_h() || param.has_step_w()) {
    if (param.has_step()) throw FieldError("prior_box_param.step", "given beside step_h or step_w");
    CheckPositive("step_h", double{param.step_h()});
    CheckPositive("step_w", double{param.step_w()});
  } else if (param.has_step()) {
    CheckPositive("step", double{param.step()});
  }
}

// The aspect ratios other than 1.
std::vector<float> RatiosOf(const PriorBoxParameter& param) {
  std::vector<float> ratios = {1};
  for (const float ratio : param.aspect_ratio()) {
    if (std::any_of(ratios.begin(), ratios.end(),
                    [&](float known) { return std::abs(ratio - known) < kSameRatio; })) {
      continue;
    }
    ratios.push_back(ratio);
    if (param.flip()) ratios.push_back(1 / ratio);
  }
  ratios.erase(ratios.begin());
  return ratios;
}

float Extent(const Blob& blob, int axis) {
  return blob.num_axes() > axis ? static_cast<float>(blob.dim(axis)) : 1;
}

std::vector<PriorBoxLayer::Size> PriorBoxLayer::SizesOfCell() const {
  const PriorBoxParameter& param = param_.prior_box_param();
  const std::vector<float> ratios = RatiosOf(param);
  std::vector<Size> sizes;
  for (int i = 0; i < param.min_size_size(); ++i) {
    const float least = std::trunc(param.min_size(i));
    sizes.push_back({least, least});
    if (param.max_size_size() > 0) {
      const float between = std::sqrt(least * std::trunc(param.max_size(i)));
      sizes.push_back({between, between});
    }
    for (const float ratio : ratios) {
      sizes.push_back({least * std::sqrt(ratio), least / std::sqrt(ratio)});
    }
  }
  return sizes;
}

void PriorBoxLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const PriorBoxParameter& param = param_.prior_box_param();
  CheckSizes(param);
  CheckVariance(param);
  CheckImageAndStep(param);
  if (bottom.size() < 2 && !param.has_img_size() && !param.has_img_h()) {
    throw FieldError("bottom", "1 given, expected 2 (the image) unless img_size is set");
  }
  sizes_ = SizesOfCell();
}

std::vector<float> PriorBoxLayer::Compute(const Size& map, const Size& image) const {
  const PriorBoxParameter& param = param_.prior_box_param();
  Size step{image.width / map.width, image.height / map.height};
  if (param.has_step()) step = {param.step(), param.step()};
  if (param.has_step_h()) step = {param.step_w(), param.step_h()};
  std::vector<float> values;
  for (float i = 0; i < map.height; ++i) {
    for (float j = 0; j < map.width; ++j) {
      const double x = double{(j + param.offset()) * step.width};
      const double y = double{(i + param.offset()) * step.height};
      for (const Size& size : sizes_) {
        const double half_width = double{size.width} / 2, half_height = double{size.height} / 2;
        const Box box{static_cast<float>((x - half_width) / double{image.width}),
                      static_cast<float>((y - half_height) / double{image.height}),
                      static_cast<float>((x + half_width) / double{image.width}),
                      static_cast<float>((y + half_height) / double{image.height})};
        const auto edges = ValuesOf(param.clip() ? Clip(box) : box);
        values.insert(values.end(), edges.begin(), edges.end());
      }
    }
  }
  const size_t boxes = values.size() / 4;
  for (size_t i = 0; i < boxes; ++i) {
    for (int k = 0; k < 4; ++k) {
      const int given = param.variance_size();
      values.push_back(given == 0 ? 0.1f : param.variance(given == 1 ? 0 : k));
    }
  }
  return values;
}

void PriorBoxLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const PriorBoxParameter& param = param_.prior_box_param();
  const Size map{Extent(*bottom[0], 3), Extent(*bottom[0], 2)};
  Size image;
  if (param.has_img_h()) {
    image = {static_cast<float>(param.img_w()), static_cast<float>(param.img_h())};
  } else if (param.has_img_size()) {
    image = {static_cast<float>(param.img_size()), static_cast<float>(param.img_size())};
  } else {
    image = {Extent(*bottom[1], 3), Extent(*bottom[1], 2)};
  }
  if (!(map == map_ && image == image_)) {
    const std::vector<float> values = Compute(map, image);
    context_.queue->Synchronize();  // work that has been enqueued may use the old boxes
    boxes_.Reshape({1, 2, static_cast<int64_t>(values.size()) / 2});
    boxes_.CopyDataFromHost(values.data());
    map_ = map;
    image_ = image;
  }
  top[0]->Reshape(boxes_.shape());
}

void PriorBoxLayer::Forward(const Blobs&, const Blobs& top) {
  context_.queue->Copy(top[0]->data(), boxes_.data(), boxes_.count() * sizeof(float));
}

const RegisterLayer<PriorBoxLayer> prior_box_layer("PriorBox");

}  // namespace
}  // namespace millrace::inline contrib
