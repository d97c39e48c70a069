// Dice loss of the sigmoids s of the scores x and a mask t of zeros and ones, over the whole batch,
// as the DiceLoss of xiamenwcy/extended-caffe:
//   top[0] = 1 - U / D,   U = 2 sum of t s + e,   D = sum of (t + s) + e,   e = 1e-6
//   dE/dx = -w (2 t D - U) / D^2 s (1 - s),   w = dE/dtop[0]
// Bottoms: x, t, with the same number of values. Values whose target is loss_param.ignore_label
// after truncation to a whole number count neither in the sums nor in the gradient. (The fork
// leaves them out of the sums in the forward pass only.)
#include "contrib/segmentation/dice_loss_kernels.h"
#include "nn/layers/loss/loss_layer.h"

namespace millrace::inline contrib {
namespace {

class DiceLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  Blob ratio_{memory()};  // U and D of the last Forward
};

DiceTerms TermsOf(const caffe::LossParameter& loss, const Blobs& bottom) {
  return {loss.has_ignore_label(), static_cast<float>(loss.ignore_label()), bottom[0]->data(),
          bottom[1]->data()};
}

void DiceLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ratio_.Reshape({2});
  ReshapeLoss(top, bottom[0]->count());
}

void DiceLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.EnqueueParts(*context_.queue, TermsOf(param_.loss_param(), bottom));
  Launch(*context_.queue, 1, DiceOfParts{sum_.parts(), sum_.sums(), ratio_.data(), top[0]->data()});
}

void DiceLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         DiceBackward{TermsOf(param_.loss_param(), bottom), top[0]->diff(), ratio_.data(),
                      bottom[0]->diff()});
}

const RegisterLayer<DiceLossLayer> dice_loss_layer("DiceLoss");

}  // namespace
}  // namespace millrace::inline contrib
