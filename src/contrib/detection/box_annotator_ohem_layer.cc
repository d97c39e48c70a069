// BoxAnnotatorOHEM: online hard example mining (Shrivastava, Gupta, Girshick 2016), as in
// daijifeng001/caffe-rfcn. Of each image, the roi_per_img regions with the largest loss are trained
// on; the others get the label ignore_label and weights of 0.
//
// Bottoms: regions {R, 5, ...}, of which only the first number, the image, is read; the loss of
// each {R, 1, ...}; its label {R, 1, ...}; the weights of its box's loss {R, K, ...}. The axes
// after the second, if any, are alike. Tops: labels and weights with the shapes of bottoms 2 and 3.
// The first ones of regions with the same loss are taken. No gradient flows to the bottoms.
#include "contrib/detection/roi_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"

namespace millrace::inline contrib {
namespace {

class BoxAnnotatorOhemLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {4, 4, 2, 2}; }
  std::set<std::string> fields() const override { return {"box_annotator_ohem_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

constexpr int kRegions = 0, kLoss = 1, kLabels = 2, kWeights = 3;

int64_t ChannelsOf(const Blob& blob) { return blob.num_axes() > 1 ? blob.dim(1) : 1; }
int64_t AreaOf(const Blob& blob) { return blob.num_axes() > 2 ? blob.count(2) : 1; }

void BoxAnnotatorOhemLayer::SetUp(const Blobs&, const Blobs&) {
  const uint32_t kept = param_.box_annotator_ohem_param().roi_per_img();
  if (kept == 0) {
    throw FieldError("box_annotator_ohem_param.roi_per_img",
                     "0 given or missing, expected at least 1");
  }
}

void BoxAnnotatorOhemLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& regions = *bottom[kRegions];
  for (int i = 0; i < 4; ++i) {
    const Blob& blob = *bottom[i];
    const int64_t channels = i == kRegions ? 5 : i == kWeights ? ChannelsOf(blob) : 1;
    if (blob.num_axes() > 0 && blob.dim(0) == regions.dim(0) && ChannelsOf(blob) == channels &&
        AreaOf(blob) == AreaOf(regions)) {
      continue;
    }
    throw FieldError(StrCat("bottom[", i, "]"), ShapeText(blob.shape()),
                     " given, expected regions of 5 numbers, and for each a loss, a label, and the "
                     "weights of its box");
  }
  top[0]->ReshapeLike(*bottom[kLabels]);
  top[1]->ReshapeLike(*bottom[kWeights]);
}

void BoxAnnotatorOhemLayer::Forward(const Blobs& bottom, const Blobs& top) {
  const caffe::BoxAnnotatorOHEMParameter& param = param_.box_annotator_ohem_param();
  const int64_t count = bottom[kLoss]->count();
  Launch(*context_.queue, count,
         KeepHardRegions{count, AreaOf(*bottom[kRegions]), ChannelsOf(*bottom[kWeights]),
                         param.roi_per_img(), static_cast<float>(param.ignore_label()),
                         bottom[kRegions]->data(), bottom[kLoss]->data(), bottom[kLabels]->data(),
                         bottom[kWeights]->data(), top[0]->data(), top[1]->data()});
}

const RegisterLayer<BoxAnnotatorOhemLayer> box_annotator_ohem_layer("BoxAnnotatorOHEM");

}  // namespace
}  // namespace millrace::inline contrib
