// ArcFace (Deng, Guo, Zafeiriou 2018; xialuxi/arcface-caffe): of the score of each example's label,
// the cosine of an angle, the angle grows by cosin_add_m_param.m (AngleMargin).
#include <cmath>
#include <numbers>

#include "nn/layers/label_margin_layer.h"

namespace millrace::inline nn {
namespace {

class CosinAddmLayer : public LabelMarginLayer {
 public:
  using LabelMarginLayer::LabelMarginLayer;

  std::set<std::string> fields() const override { return {"cosin_add_m_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override {
    const double m = param_.cosin_add_m_param().m();
    if (!(m >= 0 && m <= std::numbers::pi)) {
      throw FieldError("cosin_add_m_param.m", m, " given, expected an angle from 0 to pi");
    }
    margin_ = {static_cast<float>(std::cos(m)), static_cast<float>(std::sin(m)),
               static_cast<float>(m * std::sin(m))};
    LabelMarginLayer::SetUp(bottom, top);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override { RunForward(margin_, bottom, top); }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) RunBackward(margin_, top, bottom);
  }

 private:
  AngleMargin margin_{1, 0, 0};
};

const RegisterLayer<CosinAddmLayer> registered("CosinAddm");

}  // namespace
}  // namespace millrace::inline nn
