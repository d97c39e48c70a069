#include "nn/layers/dummy_data_layer.h"

#include "base/rng.h"
#include "nn/filler.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {
namespace {

using Dims = google::protobuf::RepeatedField<uint32_t>;

std::string At(const char* field) { return StrCat("dummy_data_param.", field); }

// Throws FieldError unless a field is given once for all `tops` or once per top.
void CheckGiven(const std::string& field, int given, int tops) {
  if (given == 1 || given == tops) return;
  throw FieldError(field, given, " given, expected 1",
                   tops == 1 ? "" : StrCat(" or ", tops, " (one per top)"));
}

int IndexOf(int given, int top) { return given == 1 ? 0 : top; }

std::vector<Shape> LegacyShapes(const caffe::DummyDataParameter& dummy, int tops) {
  const std::pair<const char*, const Dims*> axes[] = {{"num", &dummy.num()},
                                                      {"channels", &dummy.channels()},
                                                      {"height", &dummy.height()},
                                                      {"width", &dummy.width()}};
  for (const auto& [name, dims] : axes) CheckGiven(At(name), dims->size(), tops);
  std::vector<Shape> shapes;
  for (int top = 0; top < tops; ++top) {
    Shape shape;
    int64_t count = 1;
    for (const auto& [name, dims] : axes) {
      const int index = IndexOf(dims->size(), top);
      shape.push_back(dims->Get(index));
      count = CheckedProduct(count, shape.back(), StrCat(At(name), "[", index, "]"));
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<Shape> NewShapes(const caffe::DummyDataParameter& dummy, int tops) {
  CheckGiven(At("shape"), dummy.shape_size(), tops);
  std::vector<Shape> shapes;
  for (int top = 0; top < tops; ++top) {
    const int index = IndexOf(dummy.shape_size(), top);
    shapes.push_back(CheckedShape(dummy.shape(index), StrCat(At("shape"), "[", index, "]")));
  }
  return shapes;
}

}  // namespace

void DummyDataLayer::SetUp(const Blobs&, const Blobs& top) {
  const caffe::DummyDataParameter& dummy = param_.dummy_data_param();
  const int tops = static_cast<int>(top.size());
  const bool legacy =
      dummy.num_size() + dummy.channels_size() + dummy.height_size() + dummy.width_size() > 0;
  if (legacy && dummy.shape_size() > 0) {
    throw FieldError(At("shape"), "give either shape or num, channels, height and width");
  }
  shapes_ = legacy ? LegacyShapes(dummy, tops) : NewShapes(dummy, tops);

  fillers_.assign(tops, caffe::FillerParameter());
  const int given = dummy.data_filler_size();
  if (given == 0) return;
  CheckGiven(At("data_filler"), given, tops);
  for (int i = 0; i < tops; ++i) {
    const int index = IndexOf(given, i);
    fillers_[i] = dummy.data_filler(index);
    CheckFiller(fillers_[i], shapes_[i], StrCat(At("data_filler"), "[", index, "]"));
  }
}

void DummyDataLayer::Reshape(const Blobs&, const Blobs& top) {
  for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(shapes_[i]);
  first_pass_ = true;
  if (memory().on_host()) return;
  copied_.Synchronize();
  staged_.clear();
  for (const Blob* blob : top) {
    staged_.emplace_back(context_.device->staging(), blob->count() * sizeof(float));
  }
}

void DummyDataLayer::Forward(const Blobs&, const Blobs& top) {
  const uint64_t pass = context_.pass ? *context_.pass : 0;
  Rng rng(context_.seed, {kRngDummyData, context_.layer_id, pass});
  copied_.Synchronize();
  for (size_t i = 0; i < top.size(); ++i) {
    const bool constant = fillers_[i].type() == "constant";
    if (constant && !first_pass_) continue;
    float* const data = top[i]->data();
    if (staged_.empty()) {
      Fill(fillers_[i], top[i]->shape(), &rng, data);
    } else {
      Fill(fillers_[i], top[i]->shape(), &rng, staged_[i].get<float>());
      context_.queue->CopyToDevice(data, staged_[i].get(), staged_[i].bytes());
    }
  }
  if (!staged_.empty()) copied_ = context_.queue->Record();
  first_pass_ = false;
}

namespace {
const RegisterLayer<DummyDataLayer> registered("DummyData");
}  // namespace

}  // namespace millrace::inline nn
