// The objects that SSD (Liu and others 2016) finds: boxes decoded from locations and priors
// (nn/boxes/box_code.h), and for each class but the background those that non-maximum suppression
// leaves (nn/boxes/box_nms.h) of the scores above confidence_threshold; with keep_top_k at most
// that many with the best scores per image.
//
// Bottoms: locations, confidences (after softmax or sigmoid), priors (box_shapes.h); a fourth, the
// images, is for SSD's `visualize` only, which needs a window and is ignored.
// top {1, 1, rows, 7}: detections (nn/boxes/detections.h), by image and class, in the order of
// suppression, or with keep_top_k of falling scores. If there are none in the batch, one row per
// image, of its number and then -1. save_output_param: nn/boxes/detection_files.h.
//
// The host computes. From other devices the bottoms are copied to it.
#ifndef MILLRACE_NN_LAYERS_DETECTION_OUTPUT_LAYER_H_
#define MILLRACE_NN_LAYERS_DETECTION_OUTPUT_LAYER_H_

#include <memory>
#include <span>
#include <vector>

#include "millrace/layer.h"
#include "nn/boxes/box_code.h"
#include "nn/boxes/detection_files.h"
#include "nn/boxes/detections.h"
#include "nn/layers/box_shapes.h"

namespace millrace::inline nn {

class DetectionOutputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 4, 1, 1}; }
  std::set<std::string> fields() const override {
    return {"detection_output_param", "transform_param"};
  }
  bool AllowBackward(int) const override { return false; }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the top for the most detections; later ones detect.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Throws Error if results cannot be saved.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  int64_t LocationClasses() const;
  int64_t MostRows() const;
  void Detect(const Blobs& bottom);
  std::vector<Detection> DetectIn(int64_t image, std::span<const Prior> priors,
                                  const float* locations, const float* confidences) const;

  BoxShapes shapes_;
  bool shaped_ = false;
  std::vector<std::vector<Detection>> found_;  // by image
  std::vector<float> rows_;
  std::unique_ptr<DetectionFiles> files_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DETECTION_OUTPUT_LAYER_H_
