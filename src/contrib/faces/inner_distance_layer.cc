// Distances of examples from centers, as in happynear/caffe-windows:
//   top[m][n] = sum over k of (x[m][k] - c[n][k])^2   with distance_type "L2"
//   top[m][n] = sum over k of |x[m][k] - c[n][k]|     with distance_type "L1"
// Bottoms: x, whose axes from `axis` on are the features k and those before it the examples m;
// optionally the centers {N, ..}; with update_center_only the labels of the examples, as the last.
// Without the second, the centers are learnable, {num_output, features}.
//
// `normalize` scales learnable centers to the length 1 (unit_rows.h). With update_center_only the
// gradient of a center is that of the distances of examples of its own class; that of x is not
// changed. `bias_term` and `bias_filler` have no effect, as there.
#include "contrib/faces/distance_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/layers/activation/softmax_layer.h"
#include "nn/layers/inner_product/unit_rows.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/shape/row_gather.h"

namespace millrace::inline contrib {
namespace {

class InnerDistanceLayer : public Layer {
 public:
  InnerDistanceLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {labelled() ? 2 : 1, labelled() ? 3 : 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"inner_distance_param"}; }
  bool AllowBackward(int bottom) const override {
    return bottom == 0 || (bottom == 1 && params_.empty());
  }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool labelled() const { return param_.inner_distance_param().update_center_only(); }
  bool normalizes() const { return param_.inner_distance_param().normalize() && !params_.empty(); }
  // The centers that the distances are taken from.
  const float* Centers(const Blobs& bottom) const;
  // Enqueues the gradient by Centers().
  void CenterGradient(const Blobs& top, const Blobs& bottom, bool add, float* diff);

  DistanceOfFeature distance_{true};
  int axis_ = 1;
  int64_t features_ = 0;
  AxisView view_;  // of the distances: examples, centers
  UnitRows unit_;
  IndexCheck check_;
};

InnerDistanceLayer::InnerDistanceLayer(const caffe::LayerParameter& param,
                                       const LayerContext& context)
    : Layer(param, context), unit_(memory()) {}

void InnerDistanceLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::InnerDistanceParameter& param = param_.inner_distance_param();
  if (param.distance_type() != "L2" && param.distance_type() != "L1") {
    throw FieldError("inner_distance_param.distance_type", "'", param.distance_type(),
                     "' given, expected L2 or L1");
  }
  if (param.transpose()) {
    throw FieldError("inner_distance_param.transpose", "true given, expected false");
  }
  distance_ = {param.distance_type() == "L2"};
  axis_ = bottom[0]->CanonicalAxis(param.axis(), "inner_distance_param.axis");
  features_ = bottom[0]->count(axis_);
  if (labelled()) check_.Reserve(*context_.queue);
  if (bottom.size() > (labelled() ? 2u : 1u)) return;  // the centers are bottom[1]
  if (param.num_output() < 1) {
    throw FieldError("inner_distance_param.num_output", param.num_output(),
                     " given, expected at least 1");
  }
  const Shape shape{param.num_output(), features_};
  CheckFiller(param.weight_filler(), shape, "inner_distance_param.weight_filler");
  AddParam(shape, param.weight_filler());
  if (param.normalize()) unit_.Reshape(param.num_output(), features_);
}

void InnerDistanceLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& from = bottom[0]->shape();
  if (bottom[0]->num_axes() <= axis_ || bottom[0]->count(axis_) != features_) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(from), ", expected ", features_,
                     " values per row");
  }
  view_.outer = bottom[0]->count(0, axis_);
  view_.inner = 1;
  if (!params_.empty()) {
    view_.classes = param_.inner_distance_param().num_output();
  } else {
    const Blob& centers = *bottom[1];
    if (centers.num_axes() == 0 || centers.count() != centers.dim(0) * features_) {
      throw FieldError("bottom[1]", "has shape ", ShapeText(centers.shape()), ", expected ",
                       features_, " values per center");
    }
    view_.classes = centers.dim(0);
  }
  if (labelled() && bottom.back()->count() != view_.outer) {
    throw FieldError(StrCat("bottom[", bottom.size() - 1, "]"), "has shape ",
                     ShapeText(bottom.back()->shape()), ", expected ", view_.outer,
                     " labels: one for each row of bottom[0]");
  }
  Shape shape(from.begin(), from.begin() + axis_);
  shape.push_back(view_.classes);
  top[0]->Reshape(shape);
}

const float* InnerDistanceLayer::Centers(const Blobs& bottom) const {
  if (params_.empty()) return bottom[1]->data();
  return normalizes() ? unit_.values() : params_[0].blob->data();
}

void InnerDistanceLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  if (normalizes()) unit_.Forward(queue, params_[0].blob->data());
  Launch(queue, top[0]->count(),
         InnerDistances{distance_, view_.classes, features_, bottom[0]->data(), Centers(bottom),
                        top[0]->data()});
  if (labelled()) check_.Enqueue(queue, view_.classes, view_.outer, bottom.back()->data());
}

void InnerDistanceLayer::CheckForward(const Blobs& bottom) {
  if (!labelled() || !check_.found()) return;
  std::vector<float> copy;
  Labels(name(), {}).CheckAll(bottom.back()->DataOnHost(&copy), view_);
}

void InnerDistanceLayer::CenterGradient(const Blobs& top, const Blobs& bottom, bool add,
                                        float* diff) {
  Launch(*context_.queue, view_.classes * features_,
         InnerDistanceOfCenters{
             distance_, view_.outer, view_.classes, features_, add, bottom[0]->data(),
             Centers(bottom), labelled() ? bottom.back()->data() : nullptr, top[0]->diff(), diff});
}

void InnerDistanceLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                  const Blobs& bottom) {
  Queue& queue = *context_.queue;
  if (params_.empty()) {
    if (propagate_down[1]) CenterGradient(top, bottom, false, bottom[1]->diff());
  } else if (params_[0].wanted && normalizes()) {
    CenterGradient(top, bottom, false, unit_.unit().blob->diff());
    unit_.Backward(queue, params_[0]);
  } else if (params_[0].wanted) {
    CenterGradient(top, bottom, *params_[0].has_gradient, params_[0].blob->diff());
  }
  if (!propagate_down[0]) return;
  Launch(queue, bottom[0]->count(),
         InnerDistanceOfExamples{distance_, view_.classes, features_, bottom[0]->data(),
                                 Centers(bottom), top[0]->diff(), bottom[0]->diff()});
}

const RegisterLayer<InnerDistanceLayer> inner_distance_layer("InnerDistance");

}  // namespace
}  // namespace millrace::inline contrib
