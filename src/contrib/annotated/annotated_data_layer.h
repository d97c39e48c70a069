// Batches of images and the boxes of their objects, from databases of AnnotatedDatums, as in SSD
// (contrib/annotated/annotated_transform.h, which has the changes of images and their order).
//
//   top[0]  N x C x H x W images
//   top[1]  1 x 1 x K x 8 boxes (optional), K of them in all images together: the item in the
//   batch,
//           label, instance, xmin, ymin, xmax, ymax, difficult; one row of -1 if there is no box
//
// K is another number in every batch. A batch of one image has the image's own size; in larger ones
// all images have the size of the first record after its changes. Databases and `data_param` are
// those of a Data layer. annotated_data_param.label_map_file is not read, as in SSD.
#ifndef MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_DATA_LAYER_H_
#define MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_DATA_LAYER_H_

#include <memory>

#include "nn/layers/data/batch_data_layer.h"

namespace millrace::inline contrib {

class AnnotatedDataLayer : public BatchDataLayer {
 public:
  using BatchDataLayer::BatchDataLayer;

  Arity arity() const override { return {0, 0, 1, 2}; }
  std::set<std::string> fields() const override {
    return {"annotated_data_param", "data_param", "transform_param"};
  }

 protected:
  std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) override;
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_DATA_LAYER_H_
