// Layers whose tops are made up, or set by the program.
#include <limits>
#include <vector>

#include "base/rng.h"
#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/layers/fields.h"

namespace millrace::inline nn {
namespace {

// Synthetic data: a filler fills every top. A constant top is filled once. The other tops are
// filled in every pass, from the random stream with the key (seed, layer, pass).
//
// Shapes come from `shape`, or from the legacy num, channels, height and width. Each field,
// including `data_filler`, is given once for all tops or once per top. Without a `data_filler` the
// tops are zero.
class DummyDataLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"dummy_data_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    (void)top, (void)propagate_down, (void)bottom;
  }

 private:
  // One per top, set by SetUp.
  std::vector<Shape> shapes_;
  std::vector<caffe::FillerParameter> fillers_;
  bool first_pass_ = true;  // the constant tops are still unwritten
  // Per top, unless the host writes the tops themselves: the values on their way to the device.
  std::vector<Buffer> staged_;
  Event copied_;  // of `staged_`
};

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

const RegisterLayer<DummyDataLayer> dummy_data("DummyData");

// Tops of given shapes whose values the caller writes: the inputs of a net without a data layer.
// input_param.shape is given once for all tops or once per top. Without it, as in Caffe, the tops
// keep the shape of a new blob, of one value and no axes.

// Runs on every device, because it computes nothing.
class InputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"input_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // Keeps the shapes of the tops: the caller may have changed them.
  void Reshape(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Forward(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    (void)top, (void)propagate_down, (void)bottom;
  }
};

void InputLayer::SetUp(const Blobs&, const Blobs& top) {
  const caffe::InputParameter& input = param_.input_param();
  const int given = input.shape_size();
  const int tops = static_cast<int>(top.size());
  if (given == 0) return;
  if (given != 1 && given != tops) {
    throw FieldError("input_param.shape", given, " given, expected 1",
                     tops == 1 ? "" : StrCat(" or ", tops, " (one per top)"));
  }
  for (int i = 0; i < tops; ++i) {
    const int index = given == 1 ? 0 : i;
    // An input may have no items, as in Caffe.
    top[i]->Reshape(CheckedShape(input.shape(index), StrCat("input_param.shape[", index, "]"), 0));
  }
}

const RegisterLayer<InputLayer> input("Input");

}  // namespace
}  // namespace millrace::inline nn
