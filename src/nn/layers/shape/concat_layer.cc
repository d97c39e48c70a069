// Joins blobs along one axis, in the order of the bottoms:
//   top[.., offset_k + j, ..] = bottom[k][.., j, ..],   offset_k = sum over i < k of size_i
// where size_i is the size of bottom i along the axis. All other sizes are equal. `axis` may be
// negative; `concat_dim` is its old name. Bottoms may have any memory order.
#include <limits>

#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layers/shape/strided_copy.h"
#include "nn/layout.h"
#include "nn/onednn/parts.h"

namespace millrace::inline nn {
namespace {

class ConcatLayer : public Layer, public BackwardReads {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, std::numeric_limits<int>::max(), 1, 1}; }
  std::set<std::string> fields() const override { return {"concat_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  // Sets axis_ and the shape of the top. The top has the memory order of the bottoms if they agree
  // on one, otherwise plain order.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override { return ValuesRead::kNone; }

 protected:
  int axis_ = 0;
};

void ConcatLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::ConcatParameter& param = param_.concat_param();
  axis_ = AxisOf(*bottom[0], "concat_param", param.has_axis(), param.axis(), "concat_dim",
                 param.has_concat_dim(), param.concat_dim());
  Shape shape = bottom[0]->shape();
  Layout layout = bottom[0]->layout();
  for (size_t i = 1; i < bottom.size(); ++i) {
    Shape expected = bottom[i]->shape();
    if (expected.size() == shape.size()) expected[axis_] = shape[axis_];
    if (expected != shape) {
      throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                       ", expected that of bottom[0], ", ShapeText(bottom[0]->shape()),
                       ", in all axes but ", axis_);
    }
    if (bottom[i]->layout() != layout) layout = Layout::kPlain;
    shape[axis_] += bottom[i]->dim(axis_);
  }
  top[0]->Reshape(shape, FittingLayout(layout, shape));
}

class ConcatCpu : public ConcatLayer {
 public:
  using ConcatLayer::ConcatLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ConcatLayer::Reshape(bottom, top);
    parts_ = onednn::Parts(*top[0], bottom, axis_, context_.scratch);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      parts_.Insert(i, bottom[i]->data(), top[0]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) parts_.Extract(i, top[0]->diff(), bottom[i]->diff());
    }
  }

 private:
  onednn::Parts parts_;
};

const RegisterLayer<ConcatCpu> concat_layer_cpu("Concat", DeviceType::kCpu);

class ConcatGpu : public ConcatLayer {
 public:
  using ConcatLayer::ConcatLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ConcatLayer::Reshape(bottom, top);
    parts_ = BlobParts(*top[0], bottom, axis_);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    std::vector<const float*> values;
    for (const Blob* blob : bottom) values.push_back(blob->data());
    parts_.Join(*context_.queue, values, top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    std::vector<float*> diffs;
    for (size_t i = 0; i < bottom.size(); ++i) {
      diffs.push_back(propagate_down[i] ? bottom[i]->diff() : nullptr);
    }
    parts_.Divide(*context_.queue, top[0]->diff(), diffs);
  }

 private:
  BlobParts parts_;
};

const RegisterGpuLayer<ConcatGpu> concat_layer_gpu("Concat");

}  // namespace
}  // namespace millrace::inline nn
