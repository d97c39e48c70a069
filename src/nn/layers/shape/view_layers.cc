// Layers whose top is a view of their bottom.
#include "millrace/layer.h"
#include "nn/layers/fields.h"

namespace millrace::inline nn {
namespace {

// Base of the layers whose top has the bottom's values in another shape (Reshape, Flatten):
//   top = bottom      dE/dbottom = dE/dtop
// The top uses the bottom's memory for its values, unless a later layer works in place on it.
class ViewLayer : public Layer {
 public:
  using Layer::Layer;

  bool SharesData() const override { return shares_; }
  void StopSharing(const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  // A shape with as many values as the bottom's. Throws FieldError.
  virtual Shape TopShape(const Blob& bottom) const = 0;

 private:
  bool shares_ = true;
};

void ViewLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape shape = TopShape(*bottom[0]);
  if (shares_) top[0]->ShareData(*bottom[0]);  // first, so that the top does not allocate memory
  top[0]->Reshape(shape);
}

void ViewLayer::StopSharing(const Blobs& top) {
  shares_ = false;
  top[0]->BindData(nullptr);  // its next use allocates memory
}

void ViewLayer::Forward(const Blobs& bottom, const Blobs& top) {
  if (!shares_) {
    const size_t bytes = bottom[0]->count() * sizeof(float);
    return context_.queue->Copy(top[0]->data(), bottom[0]->data(), bytes);
  }
  // The bottom's memory may have changed since the last pass.
  if (top[0]->data() != bottom[0]->data()) top[0]->ShareData(*bottom[0]);
}

void ViewLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  if (!propagate_down[0]) return;
  context_.queue->Copy(bottom[0]->diff(), top[0]->diff(), bottom[0]->count() * sizeof(float));
}

// Joins the axes from `axis` to `end_axis`, inclusive, to one. Both may be negative. By default all
// axes but the first are joined.
class FlattenLayer : public ViewLayer {
 public:
  using ViewLayer::ViewLayer;

  std::set<std::string> fields() const override { return {"flatten_param"}; }

 protected:
  Shape TopShape(const Blob& bottom) const override;
};

Shape FlattenLayer::TopShape(const Blob& bottom) const {
  const caffe::FlattenParameter& param = param_.flatten_param();
  const int begin = CheckedAxis(bottom, param.axis(), "flatten_param.axis");
  const int end = CheckedAxis(bottom, param.end_axis(), "flatten_param.end_axis");
  if (end < begin) {
    throw FieldError("flatten_param.end_axis", param.end_axis(),
                     " given, expected an axis that is not before axis ", begin);
  }
  const Shape& from = bottom.shape();
  Shape shape(from.begin(), from.begin() + begin);
  shape.push_back(bottom.count(begin, end + 1));
  shape.insert(shape.end(), from.begin() + end + 1, from.end());
  return shape;
}

const RegisterLayer<FlattenLayer> flatten("Flatten");

// Gives the values of the bottom another shape. The axes [axis, axis + num_axes) of the bottom are
// replaced by shape.dim; the others stay. By default all axes are replaced.
//   dim 0    the size of the bottom's axis at this place
//   dim -1   what is left of the bottom's values; at most once
// A negative axis counts from behind the last one: -1 adds axes at the end.
class ReshapeLayer : public ViewLayer {
 public:
  using ViewLayer::ViewLayer;

  std::set<std::string> fields() const override { return {"reshape_param"}; }

 protected:
  Shape TopShape(const Blob& bottom) const override;
};

Shape ReshapeLayer::TopShape(const Blob& bottom) const {
  const caffe::ReshapeParameter& param = param_.reshape_param();
  const int axes = bottom.num_axes();
  const int begin = param.axis() < 0 ? param.axis() + axes + 1 : param.axis();
  if (begin < 0 || begin > axes) {
    throw FieldError("reshape_param.axis", param.axis(), " given, but the bottom has ", axes,
                     " axes");
  }
  if (param.num_axes() < -1 || param.num_axes() > axes - begin) {
    throw FieldError("reshape_param.num_axes", param.num_axes(), " given, expected -1 to ",
                     axes - begin);
  }
  const int end = param.num_axes() < 0 ? axes : begin + param.num_axes();

  const Shape& from = bottom.shape();
  Shape shape(from.begin(), from.begin() + begin);
  // Without the axes that stay as they are, whose sizes may be 0.
  int64_t known = 1;
  Shape divided(from.begin() + begin, from.begin() + end);
  int inferred = -1;
  for (int i = 0; i < param.shape().dim_size(); ++i) {
    const std::string field = StrCat("reshape_param.shape.dim[", i, "]");
    int64_t dim = param.shape().dim(i);
    if (dim == 0 && begin + i >= axes) {
      throw FieldError(field, "0 given, but the bottom has no axis ", begin + i);
    }
    if (dim == -1 && inferred >= 0) throw FieldError(field, "a second -1 given, expected one");
    if (dim == -1) {
      inferred = begin + i;
    } else if (dim == 0 && begin + i < end) {
      dim = from[begin + i];
      divided[i] = 1;
    } else if (dim == 0) {
      dim = from[begin + i];
      known *= dim;
    } else {
      known = CheckedProduct(known, dim, field);
    }
    shape.push_back(dim);
  }
  shape.insert(shape.end(), from.begin() + end, from.end());
  const int64_t count = ShapeCount(divided);
  if (inferred >= 0 && known > 0 && count % known == 0) {
    shape[inferred] = count / known;
  } else if (inferred >= 0 || known != count) {
    throw FieldError("reshape_param.shape", "a bottom of shape ", ShapeText(from),
                     " cannot be divided into ", known, " values");
  }
  return shape;
}

const RegisterLayer<ReshapeLayer> reshape("Reshape");

}  // namespace
}  // namespace millrace::inline nn
