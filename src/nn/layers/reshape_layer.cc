#include "nn/layers/reshape_layer.h"

#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

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

namespace {

const RegisterLayer<ReshapeLayer> registered("Reshape");

}  // namespace
}  // namespace millrace::inline nn
