#include "data/images/mean_image.h"

#include "base/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline data {

MeanImage LoadMeanImage(const std::string& path) {
  caffe::BlobProto mean;
  LoadBinary(path, "a mean image (.binaryproto)", &mean);
  std::vector<int64_t> shape(mean.shape().dim().begin(), mean.shape().dim().end());
  if (!mean.has_shape()) shape = {mean.num(), mean.channels(), mean.height(), mean.width()};
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  std::string text;
  int64_t count = 1;
  bool positive = true;
  for (const int64_t dim : shape) {
    text += StrCat(text.empty() ? "" : " x ", dim);
    positive &= dim > 0 && !__builtin_mul_overflow(count, dim, &count);
  }
  if (shape.size() != 3 || !positive) {
    throw Error(path, ": holds an array of ", text, ", expected channels x height x width");
  }
  MeanImage image{shape[0], shape[1], shape[2], {}};
  if (mean.double_data_size() > 0) {
    image.values.assign(mean.double_data().begin(), mean.double_data().end());
  } else {
    image.values.assign(mean.data().begin(), mean.data().end());
  }
  if (static_cast<int64_t>(image.values.size()) != count) {
    throw Error(path, ": holds ", image.values.size(), " values, expected ", count);
  }
  return image;
}

}  // namespace millrace::inline data
