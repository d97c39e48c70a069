#include "nn/layers/box_annotator_ohem_layer.h"

#include "device/kernel.h"
#include "nn/layers/box_annotator_ohem_kernels.h"

namespace millrace::inline nn {
namespace {

constexpr int kRegions = 0, kLoss = 1, kLabels = 2, kWeights = 3;

int64_t ChannelsOf(const Blob& blob) { return blob.num_axes() > 1 ? blob.dim(1) : 1; }
int64_t AreaOf(const Blob& blob) { return blob.num_axes() > 2 ? blob.count(2) : 1; }

}  // namespace

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

namespace {

const RegisterLayer<BoxAnnotatorOhemLayer> registered("BoxAnnotatorOHEM");

}  // namespace
}  // namespace millrace::inline nn
