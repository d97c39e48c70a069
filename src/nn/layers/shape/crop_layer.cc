// Cuts a block out of the first bottom. The second bottom gives its size only:
//   top[i_0, i_1, ..] = bottom[0][i_0 + offset_0, i_1 + offset_1, ..]
// Axes before `axis` keep their size and have offset 0. The others get the second bottom's sizes;
// `offset` has one value for all of them, or one for each, and is 0 by default.
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/strided_copy.h"

namespace millrace::inline nn {
namespace {

class CropLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"crop_param"}; }
  // The values of the second bottom are not read.
  Layout BottomLayout(int i, const Blob& bottom) const override {
    return i == 0 ? Layout::kPlain : bottom.layout();
  }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  StridedCopy copy_;   // from the bottom to the top
  int64_t begin_ = 0;  // index in the bottom of the top's first value
};

void CropLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::CropParameter& param = param_.crop_param();
  const int first = CheckedAxis(*bottom[0], param.axis(), "crop_param.axis");
  const int axes = bottom[0]->num_axes();
  if (param.offset_size() > 1 && param.offset_size() != axes - first) {
    throw FieldError("crop_param.offset", param.offset_size(), " given, expected one, or ",
                     axes - first, " for the axes from ", first, " on");
  }
  if (bottom[1]->num_axes() < axes) {
    throw FieldError("bottom[1]", "has ", bottom[1]->num_axes(), " axes, expected ", axes);
  }
  Shape shape = bottom[0]->shape();
  begin_ = 0;
  for (int axis = first; axis < axes; ++axis) {
    const int64_t offset = param.offset_size() == 0   ? 0
                           : param.offset_size() == 1 ? param.offset(0)
                                                      : param.offset(axis - first);
    shape[axis] = bottom[1]->dim(axis);
    if (offset + shape[axis] > bottom[0]->dim(axis)) {
      throw FieldError("crop_param.offset", offset, " given, but ", shape[axis],
                       " values from there on do not fit into axis ", axis, " of size ",
                       bottom[0]->dim(axis));
    }
    begin_ += offset * bottom[0]->count(axis + 1);
  }
  top[0]->Reshape(shape);
  copy_ = StridedCopy();
  for (int axis = 0; axis < axes; ++axis) {
    copy_.AddAxis(shape[axis], bottom[0]->count(axis + 1), top[0]->count(axis + 1));
  }
}

void CropLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data() + begin_, top[0]->data());
}

void CropLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  if (!propagate_down[0]) return;
  float* const diff = bottom[0]->diff();
  context_.queue->Fill(diff, 0, bottom[0]->count() * sizeof(float));
  copy_.Reversed().Run(*context_.queue, top[0]->diff(), diff + begin_);
}

const RegisterLayer<CropLayer> crop_layer("Crop");

}  // namespace
}  // namespace millrace::inline nn
