// Layers that change the order of values: Permute, ShuffleChannel, Reorg, Reverse and Flip.
#include <algorithm>
#include <vector>

#include "millrace/layer.h"
#include "nn/layers/shape/strided_copy.h"

namespace millrace::inline contrib {
namespace {

// A layer of one bottom that copies each value to its place in the top.
class StridedCopyLayer : public Layer {
 public:
  using Layer::Layer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    copy_.Reversed().Run(*context_.queue, top[0]->diff(), bottom[0]->diff());
  }

 protected:
  StridedCopy copy_;  // from the bottom to the top; set by Reshape
};

// Permutes the axes: axis k of the top is axis order[k] of the bottom. Axes that `order` does not
// name follow in their order. A layer of the SSD fork of Caffe.
class PermuteLayer : public StridedCopyLayer {
 public:
  using StridedCopyLayer::StridedCopyLayer;

  std::set<std::string> fields() const override { return {"permute_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
};

void PermuteLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const auto& given = param_.permute_param().order();
  const int axes = bottom[0]->num_axes();
  std::vector<int> order;
  for (int i = 0; i < given.size(); ++i) {
    const std::string field = StrCat("permute_param.order[", i, "]");
    const int64_t axis = given.Get(i);
    if (axis >= axes) {
      throw FieldError(field, axis, " given, but the bottom has ", axes, " axes");
    }
    if (std::count(order.begin(), order.end(), axis) > 0) {
      throw FieldError(field, axis, " given twice");
    }
    order.push_back(static_cast<int>(axis));
  }
  for (int axis = 0; axis < axes; ++axis) {
    if (std::count(order.begin(), order.end(), axis) == 0) order.push_back(axis);
  }
  Shape shape;
  for (const int axis : order) shape.push_back(bottom[0]->dim(axis));
  top[0]->Reshape(shape);
  copy_ = StridedCopy();
  for (int i = 0; i < axes; ++i) {
    copy_.AddAxis(shape[i], bottom[0]->count(order[i] + 1), top[0]->count(i + 1));
  }
}

const RegisterLayer<PermuteLayer> permute("Permute");

// Mixes the channels of G groups, for ShuffleNet (Zhang, Zhou, Lin, Sun 2017). With C channels and
// K = C / G in each group,
//   top[n, k G + g, ..] = bottom[n, g K + k, ..]
// A layer of forks of Caffe.
class ShuffleChannelLayer : public StridedCopyLayer {
 public:
  using StridedCopyLayer::StridedCopyLayer;

  std::set<std::string> fields() const override { return {"shuffle_channel_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
};

void ShuffleChannelLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected at least 2");
  }
  const int64_t group = param_.shuffle_channel_param().group(), channels = bottom[0]->dim(1);
  if (group < 1 || channels % group != 0) {
    throw FieldError("shuffle_channel_param.group", group,
                     " given, expected a divisor of the number of channels, ", channels);
  }
  top[0]->ReshapeLike(*bottom[0]);
  const int64_t plane = bottom[0]->count(2), in_group = channels / group;
  copy_ = StridedCopy();
  copy_.AddAxis(bottom[0]->dim(0), channels * plane, channels * plane);
  copy_.AddAxis(in_group, plane, group * plane);
  copy_.AddAxis(group, in_group * plane, plane);
  copy_.AddAxis(plane, 1, 1);
}

const RegisterLayer<ShuffleChannelLayer> shuffle_channel("ShuffleChannel");

// Moves blocks of pixels to channels, or back, as the passthrough layer of YOLOv2 (Redmon, Farhadi
// 2017) and its forks of Caffe do.
//
// The bottom is {N, C, H, W}, with s = reorg_param.stride and C a multiple of s^2. Both directions
// use one numbering. Channel k = q C/s^2 + c, row j and column i of {N, C, H, W} belong to
//   channel c, row j s + q / s, column i s + q % s   of {N, C/s^2, H s, W s}
// reverse: true    top {N, C/s^2, H s, W s}, which takes its values from there.
// reverse: false   top {N, C s^2, H/s, W/s}; H and W are multiples of s. The numbering is that of
//   the bottom's sizes, not of the top's, as YOLOv2's weights need it: the values of the bottom are
//   read as if they were {N, C/s^2, H s, W s}, and those of the top written as {N, C, H, W}.
class ReorgLayer : public StridedCopyLayer {
 public:
  using StridedCopyLayer::StridedCopyLayer;

  std::set<std::string> fields() const override { return {"reorg_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
};

constexpr int64_t kMaxStride = 1 << 12;

void ReorgLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& from = bottom[0]->shape();
  if (from.size() != 4) {
    throw FieldError("bottom", "has ", from.size(), " axes, expected 4 (N, C, H, W)");
  }
  const int64_t s = param_.reorg_param().stride();
  if (s < 1 || s > kMaxStride) {
    throw FieldError("reorg_param.stride", s, " given, expected 1 to ", kMaxStride);
  }
  const bool reverse = param_.reorg_param().reverse();
  const int64_t channels = from[1], height = from[2], width = from[3], few = channels / (s * s);
  if (channels % (s * s) != 0) {
    throw FieldError("bottom", ShapeText(from), " given, expected a multiple of ", s * s,
                     " channels, the square of reorg_param.stride");
  }
  if (!reverse && (height % s != 0 || width % s != 0)) {
    throw FieldError("bottom", ShapeText(from),
                     " given, expected multiples of reorg_param.stride, ", s,
                     ", as height and width");
  }
  if (reverse) {
    top[0]->Reshape({from[0], few, height * s, width * s});
  } else {
    top[0]->Reshape({from[0], channels * s * s, height / s, width / s});
  }
  // From {N, C, H, W} to {N, C/s^2, H s, W s}.
  StridedCopy copy;
  const int64_t plane = height * width, row = width * s;
  copy.AddAxis(from[0], channels * plane, channels * plane);
  copy.AddAxis(s, s * few * plane, row);
  copy.AddAxis(s, few * plane, 1);
  copy.AddAxis(few, plane, plane * s * s);
  copy.AddAxis(height, width, row * s);
  copy.AddAxis(width, 1, s);
  copy_ = reverse ? copy : copy.Reversed();
}

const RegisterLayer<ReorgLayer> reorg("Reorg");

// Turns axes around, as in forks of Caffe for sequences:
//   top[.., i, ..] = bottom[.., size - 1 - i, ..]   for each reverse_param.axis, by default axis 0
class ReverseLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"reverse_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  // One value for each axis of `bottom`: whether the layer turns it around. Throws FieldError.
  virtual std::vector<bool> ReversedAxes(const Blob& bottom) const;

 private:
  StridedCopy copy_;   // in both directions
  int64_t first_ = 0;  // where the copy begins to read
};

std::vector<bool> ReverseLayer::ReversedAxes(const Blob& bottom) const {
  const caffe::ReverseParameter& param = param_.reverse_param();
  std::vector<bool> reversed(bottom.num_axes(), false);
  for (int i = 0; i < std::max(param.axis_size(), 1); ++i) {
    const int given = param.axis_size() == 0 ? 0 : param.axis(i);
    const int axis = bottom.CanonicalAxis(given, "reverse_param.axis");
    if (reversed[axis])
      throw FieldError("reverse_param.axis", given, " given twice, expected once");
    reversed[axis] = true;
  }
  return reversed;
}

void ReverseLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const std::vector<bool> reversed = ReversedAxes(*bottom[0]);
  top[0]->ReshapeLike(*bottom[0]);
  copy_ = StridedCopy();
  first_ = 0;
  for (int axis = 0; axis < bottom[0]->num_axes(); ++axis) {
    const int64_t size = bottom[0]->dim(axis), step = bottom[0]->count(axis + 1);
    copy_.AddAxis(size, reversed[axis] ? -step : step, step);
    if (reversed[axis]) first_ += (size - 1) * step;
  }
  if (bottom[0]->count() == 0) first_ = 0;  // there is no memory
}

void ReverseLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data() + first_, top[0]->data());
}

void ReverseLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  copy_.Run(*context_.queue, top[0]->diff() + first_, bottom[0]->diff());
}

const RegisterLayer<ReverseLayer> reverse("Reverse");

// Mirrors the images of blobs (N, C, H, W), as in happynear/caffe-windows:
//   top[n, c, h, w] = bottom[n, c, h', w']
//   h' = H - 1 - h if flip_param.flip_height (default: false), else h
//   w' = W - 1 - w if flip_param.flip_width (default: true), else w
// Axes that a blob lacks have the size 1, as in Caffe.
class FlipLayer : public ReverseLayer {
 public:
  using ReverseLayer::ReverseLayer;

  std::set<std::string> fields() const override { return {"flip_param"}; }

 protected:
  std::vector<bool> ReversedAxes(const Blob& bottom) const override;
};

std::vector<bool> FlipLayer::ReversedAxes(const Blob& bottom) const {
  const int axes = bottom.num_axes();
  if (axes > 4) throw FieldError("bottom", axes, " axes, expected at most 4");
  const caffe::FlipParameter& param = param_.flip_param();
  std::vector<bool> reversed(axes, false);
  if (axes > 2) reversed[2] = param.flip_height();
  if (axes > 3) reversed[3] = param.flip_width();
  return reversed;
}

const RegisterLayer<FlipLayer> flip("Flip");

}  // namespace
}  // namespace millrace::inline contrib
