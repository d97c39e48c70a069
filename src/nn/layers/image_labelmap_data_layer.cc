// Batches of images and binary maps, as in HED's fork (s9xie/hed): an ImageSegData layer with two
// tops, whose labels are 1 where the label image has a value of 128 or more and 0 elsewhere: value
// / 255, rounded. Images that are smaller than the crop are errors. Different from the fork, crops
// are central in tests, and label images are resized to their nearest pixels.
#include "nn/layers/image_seg_data_layer.h"

namespace millrace::inline nn {
namespace {

class ImageLabelmapDataLayer : public ImageSegDataLayer {
 public:
  using ImageSegDataLayer::ImageSegDataLayer;

  Arity arity() const override { return {0, 0, 2, 2}; }
};

const RegisterLayer<ImageLabelmapDataLayer> registered("ImageLabelmapData");

}  // namespace
}  // namespace millrace::inline nn
