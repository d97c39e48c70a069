#include "contrib/segmentation/image_data_layers.h"

#include "data/images/image_pair_transform.h"
#include "data/images/image_seg_transform.h"

namespace millrace::inline contrib {

std::unique_ptr<BatchTransform> DenseImageDataLayer::MakeTransform(const BatchStream& stream) {
  RecordView first;
  try {
    first = stream.FirstRecord();
  } catch (const Error& error) {
    throw FieldError("dense_image_data_param.source", error.what());
  }
  return PerRecord(
      std::make_unique<ImagePairTransform>(param_, context_.phase, stream.seed(), stream.stream(),
                                           stream.source_path(0), first),
      stream.batch_size());
}

namespace {
const RegisterLayer<DenseImageDataLayer> dense_image_data("DenseImageData");
}  // namespace

std::unique_ptr<BatchTransform> ImageSegDataLayer::MakeTransform(const BatchStream& stream) {
  RecordView first;
  try {
    first = stream.FirstRecord();
  } catch (const Error& error) {
    throw FieldError("image_data_param.source", error.what());
  }
  return PerRecord(
      std::make_unique<ImageSegTransform>(param_, context_.phase, stream.seed(), stream.stream(),
                                          stream.source_path(0), first),
      stream.batch_size());
}

namespace {
const RegisterLayer<ImageSegDataLayer> image_seg_data("ImageSegData");
// Batches of images and binary maps, as in HED's fork (s9xie/hed): an ImageSegData layer with two
// tops, whose labels are 1 where the label image has a value of 128 or more and 0 elsewhere: value
// / 255, rounded. Images that are smaller than the crop are errors. Different from the fork, crops
// are central in tests, and label images are resized to their nearest pixels.
class ImageLabelmapDataLayer : public ImageSegDataLayer {
 public:
  using ImageSegDataLayer::ImageSegDataLayer;

  Arity arity() const override { return {0, 0, 2, 2}; }
};

const RegisterLayer<ImageLabelmapDataLayer> image_labelmap_data("ImageLabelmapData");

}  // namespace
}  // namespace millrace::inline contrib
