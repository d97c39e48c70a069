// Compares detections with ground truth (SSD, Liu and others 2016). Bottoms: detections {1, 1,
// rows, 7} (nn/boxes/detections.h) and ground truth {1, 1, rows, 8} (nn/boxes/ground_truth.h).
//
// top {1, 1, rows, 5}: first one row per class but the background,
//   -1, label, number of ground truth boxes, -1, -1
// then one per detection, by image, label and falling score,
//   image, label, score, true positive, false positive
// A detection is a true positive if the box of its image and label that it overlaps most, by
// overlap_threshold or more, has none with a better score. Without evaluate_difficult_gt difficult
// boxes are not counted, and detections of them are neither true nor false. A test makes mean
// average precisions of these rows (nn/boxes/detection_scores.h).
//
// With a name_size_file overlaps are of pixels. It lists the images of the data in their order; the
// images of a batch are those up to the last one with a row.
//
// The host computes. From other devices the bottoms are copied to it.
#ifndef MILLRACE_NN_LAYERS_DETECTION_EVALUATE_LAYER_H_
#define MILLRACE_NN_LAYERS_DETECTION_EVALUATE_LAYER_H_

#include <map>
#include <vector>

#include "millrace/layer.h"
#include "nn/boxes/detections.h"
#include "nn/boxes/ground_truth.h"
#include "nn/boxes/image_box.h"

namespace millrace::inline nn {

class DetectionEvaluateLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"detection_evaluate_param"}; }
  bool AllowBackward(int) const override { return false; }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the top for the most rows; later ones compute them.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  using Objects = std::map<int64_t, std::vector<GroundTruth>>;

  int background() const;
  int64_t Classes() const;  // without the background
  void Evaluate(const Blobs& bottom);
  void AddRow(float image, float label, float score, float right, float wrong);
  void AddCounts(const Objects& objects);
  // The detections of one image and label, by falling score.
  void AddDetections(std::vector<Detection> found, const std::vector<GroundTruth>& objects);
  PixelBox BoxOfImage(const Box& box, int64_t image) const;

  std::vector<NamedImage> images_;  // empty: overlaps are of shares
  size_t first_ = 0;                // in images_, of the batch
  size_t batch_ = 0;                // images of the batch
  bool shaped_ = false;
  std::vector<float> rows_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DETECTION_EVALUATE_LAYER_H_
