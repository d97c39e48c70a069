// Divides a blob along one axis; the tops receive the parts in order:
//   top[k][.., j, ..] = bottom[.., begin_k + j, ..]
// begin_0 is 0, and the other begins are the slice points, which increase. Without slice points all
// parts have the same size. `axis` may be negative; `slice_dim` is its old name. The bottom may
// have any memory order.
#include <limits>

#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/strided_copy.h"
#include "nn/layout.h"
#include "nn/onednn/parts.h"

namespace millrace::inline nn {
namespace {

class SliceLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"slice_param"}; }
  // The bottom's own memory order if it fits all tops, otherwise plain order.
  Layout BottomLayout(int, const Blob& bottom) const override;

  // Sets axis_ and the shapes of the tops, which have the bottom's memory order.
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  int axis_ = 0;

 private:
  int AxisIn(const Blob& bottom) const;
  // The sizes of the tops along the axis, whose size is `size`.
  std::vector<int64_t> Sizes(int64_t size, int64_t tops) const;
};

std::vector<int64_t> SliceLayer::Sizes(int64_t size, int64_t tops) const {
  const auto& points = param_.slice_param().slice_point();
  if (points.empty()) {
    if (size % tops != 0) {
      throw FieldError("slice_param", "an axis of size ", size, " has no ", tops,
                       " equal parts: give slice_point");
    }
    return std::vector<int64_t>(tops, size / tops);
  }
  if (points.size() != tops - 1) {
    throw FieldError("slice_param.slice_point", points.size(), " given, expected ", tops - 1,
                     ", one less than tops");
  }
  std::vector<int64_t> sizes;
  int64_t begin = 0;
  for (int i = 0; i < points.size(); ++i) {
    const int64_t end = points.Get(i);
    // The last part may be empty, as in Caffe, unless there are more parts than places.
    if (end <= begin || end > size || tops > size) {
      throw FieldError(StrCat("slice_param.slice_point[", i, "]"), end,
                       " given, expected a number above ", begin, " and up to ", size);
    }
    sizes.push_back(end - begin);
    begin = end;
  }
  sizes.push_back(size - begin);
  return sizes;
}

int SliceLayer::AxisIn(const Blob& bottom) const {
  const caffe::SliceParameter& param = param_.slice_param();
  return AxisOf(bottom, "slice_param", param.has_axis(), param.axis(), "slice_dim",
                param.has_slice_dim(), param.slice_dim());
}

Layout SliceLayer::BottomLayout(int, const Blob& bottom) const {
  const Layout layout = bottom.layout();
  const int points = param_.slice_param().slice_point_size();
  const int tops = points > 0 ? points + 1 : param_.top_size();
  if (layout == Layout::kPlain || tops == 0) return Layout::kPlain;
  Shape shape = bottom.shape();
  const int axis = AxisIn(bottom);
  for (const int64_t size : Sizes(shape[axis], tops)) {
    shape[axis] = size;
    if (FittingLayout(layout, shape) != layout) return Layout::kPlain;
  }
  return layout;
}

void SliceLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  axis_ = AxisIn(*bottom[0]);
  Shape shape = bottom[0]->shape();
  const std::vector<int64_t> sizes = Sizes(shape[axis_], std::ssize(top));
  for (size_t i = 0; i < top.size(); ++i) {
    shape[axis_] = sizes[i];
    top[i]->Reshape(shape, bottom[0]->layout());
  }
}

class SliceCpu : public SliceLayer {
 public:
  using SliceLayer::SliceLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SliceLayer::Reshape(bottom, top);
    parts_ = onednn::Parts(*bottom[0], top, axis_, context_.scratch);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      parts_.Extract(i, bottom[0]->data(), top[i]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    for (size_t i = 0; i < top.size(); ++i) {
      parts_.Insert(i, top[i]->diff(), bottom[0]->diff());
    }
  }

 private:
  onednn::Parts parts_;
};

const RegisterLayer<SliceCpu> slice_layer_cpu("Slice", DeviceType::kCpu);

class SliceGpu : public SliceLayer {
 public:
  using SliceLayer::SliceLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SliceLayer::Reshape(bottom, top);
    parts_ = BlobParts(*bottom[0], top, axis_);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    std::vector<float*> values;
    for (const Blob* blob : top) values.push_back(blob->data());
    parts_.Divide(*context_.queue, bottom[0]->data(), values);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    std::vector<const float*> diffs;
    for (const Blob* blob : top) diffs.push_back(blob->diff());
    parts_.Join(*context_.queue, diffs, bottom[0]->diff());
  }

 private:
  BlobParts parts_;
};

const RegisterGpuLayer<SliceGpu> slice_layer_gpu("Slice");

}  // namespace
}  // namespace millrace::inline nn
