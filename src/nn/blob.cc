#include "millrace/blob.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/error.h"
#include "proto/caffe.pb.h"

namespace millrace {

std::string ShapeText(const Shape& shape) {
  std::string text;
  for (int64_t dim : shape) text += StrCat(dim, " ");
  return StrCat(text, "(", ShapeCount(shape), ")");
}

int64_t ShapeCount(const Shape& shape) {
  uint64_t count = 1;  // wraps around harmlessly for the absurd shapes of a damaged file
  for (int64_t dim : shape) count *= static_cast<uint64_t>(dim);
  return static_cast<int64_t>(count);
}

void Blob::Reshape(const Shape& shape, Layout layout) {
  const int64_t count = ShapeCount(shape);
  const size_t bytes = count * sizeof(float);
  // Releases memory that is too small; data() and diff() allocate it again.
  if (data_owner_ && data_owner_->bytes() < bytes) data_owner_.reset(), data_ = nullptr;
  if (diff_owner_ && diff_owner_->bytes() < bytes) diff_owner_.reset(), diff_ = nullptr;
  shape_ = shape;
  count_ = count;
  layout_ = layout;
}

int64_t Blob::count(int begin, int end) const {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= shape_[i];
  return product;
}

int Blob::CanonicalAxis(int axis, const char* what) const {
  if (axis < -num_axes() || axis >= num_axes()) {
    throw Error(what, ": ", axis, " is not an axis of a blob with ", num_axes(), " axes");
  }
  return axis < 0 ? axis + num_axes() : axis;
}

namespace {

float* Allocate(MemorySpace& memory, int64_t count, std::shared_ptr<Buffer>* owner) {
  const size_t bytes = count * sizeof(float);
  *owner = std::make_shared<Buffer>(memory, bytes);
  memory.Fill((*owner)->get(), 0, bytes);
  return (*owner)->get<float>();
}

}  // namespace

float* Blob::data() const {
  if (!data_) data_ = Allocate(*memory_, count_, &data_owner_);
  return data_;
}

float* Blob::diff() const {
  if (!diff_) diff_ = Allocate(*memory_, count_, &diff_owner_);
  return diff_;
}

void Blob::CopyDataToHost(float* host) const {
  memory_->CopyToHost(host, data(), count_ * sizeof(float));
}

void Blob::CopyDataFromHost(const float* host) {
  memory_->CopyFromHost(data(), host, count_ * sizeof(float));
}

void Blob::CopyDiffToHost(float* host) const {
  memory_->CopyToHost(host, diff(), count_ * sizeof(float));
}

void Blob::CopyDiffFromHost(const float* host) {
  memory_->CopyFromHost(diff(), host, count_ * sizeof(float));
}

const float* Blob::DataOnHost(std::vector<float>* copy) const {
  if (memory_->on_host()) return data();
  copy->resize(count_);
  CopyDataToHost(copy->data());
  return copy->data();
}

void Blob::ShareData(const Blob& other) {
  CHECK_EQ(memory_, other.memory_);
  data_ = other.data();
  data_owner_ = other.data_owner_;
}

void Blob::BindData(float* data) {
  data_owner_.reset();
  data_ = data;
}

void Blob::BindDiff(float* diff) {
  diff_owner_.reset();
  diff_ = diff;
}

void Blob::ToProto(caffe::BlobProto* proto, bool with_diff) const {
  proto->Clear();
  for (int64_t dim : shape_) proto->mutable_shape()->add_dim(dim);
  const auto count = static_cast<int>(count_);
  proto->mutable_data()->Reserve(count);
  CopyDataToHost(proto->mutable_data()->AddNAlreadyReserved(count));
  if (!with_diff) return;
  proto->mutable_diff()->Reserve(count);
  CopyDiffToHost(proto->mutable_diff()->AddNAlreadyReserved(count));
}

void Blob::FromProto(const caffe::BlobProto& proto, const std::string& what) {
  const auto significant = [](Shape shape) {
    shape.erase(shape.begin(),
                std::find_if(shape.begin(), shape.end(), [](int64_t dim) { return dim != 1; }));
    return shape;
  };
  const Shape stored = ShapeOf(proto);
  const bool same =
      proto.has_shape() ? stored == shape_ : significant(stored) == significant(shape_);
  if (!same) {
    throw Error(what, ": stored with shape ", ShapeText(stored), ", expected ", ShapeText(shape_));
  }
  const int64_t values =
      proto.double_data_size() > 0 ? proto.double_data_size() : proto.data_size();
  if (values != count_) {
    throw Error(what, ": holds ", values, " values, expected ", count_);
  }
  if (proto.double_data_size() > 0) {
    const std::vector<float> values(proto.double_data().begin(), proto.double_data().end());
    CopyDataFromHost(values.data());
  } else {
    CopyDataFromHost(proto.data().data());
  }
}

Shape ShapeOf(const caffe::BlobShape& proto) {
  return Shape(proto.dim().begin(), proto.dim().end());
}

Shape ShapeOf(const caffe::BlobProto& proto) {
  if (proto.has_shape()) return ShapeOf(proto.shape());
  if (!proto.has_num() && !proto.has_channels() && !proto.has_height() && !proto.has_width()) {
    return {proto.double_data_size() > 0 ? proto.double_data_size() : proto.data_size()};
  }
  return {proto.num(), proto.channels(), proto.height(), proto.width()};
}

}  // namespace millrace
