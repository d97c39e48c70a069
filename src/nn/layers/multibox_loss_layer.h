// The loss of SSD (Liu and others 2016). With x the prior boxes that count (nn/boxes/
// multibox_match.h), the location loss L and the confidence loss C (location_loss.h,
// confidence_loss.h),
//   top = (loc_weight * sum over priors with an object of L + sum over x of C) / Z
// Z by loss_param.normalization: VALID (default) the number of priors with an object; FULL all
// priors of all images; BATCH_SIZE the images; NONE 1; at least 1. A `propagate_down: false` of
// bottom 0 or 1 leaves out its part.
//
// Bottoms: locations, confidences, priors (box_shapes.h), and ground truth (ground_truth.h). The
// gradient takes matches and choices as fixed. As in SSD, that of the locations does not take the
// variances of encode_variance_in_target into account.
//
// The host computes. From other devices the bottoms are copied to it.
#ifndef MILLRACE_NN_LAYERS_MULTIBOX_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_MULTIBOX_LOSS_LAYER_H_

#include <optional>
#include <vector>

#include "millrace/layer.h"
#include "nn/boxes/multibox_match.h"
#include "nn/layers/box_shapes.h"

namespace millrace::inline nn {

class MultiBoxLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {4, 4, 1, 1}; }
  std::set<std::string> fields() const override { return {"multibox_loss_param", "loss_param"}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom < 2; }
  bool AutoTop() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Waits for the work before it. Throws Error for ground truth that is not valid.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // A prior with an object.
  struct LocationTerm {
    int64_t at;  // of its first value in bottom 0
    BoxCode::Values difference;
  };
  // A prior that counts, with targets_[begin, end).
  struct ConfidenceTerm {
    int64_t at;  // of its first value in bottom 1
    size_t begin, end;
  };

  // Sets the terms. `scores`: of bottom 1, in host memory.
  void Collect(const Blobs& bottom, const float* scores);
  void CollectImage(int64_t image, std::span<const GroundTruth> objects,
                    std::span<const Prior> priors, const ImagePredictions& predictions);
  void AddConfidence(int64_t image, int64_t prior, std::span<const int> targets);
  std::span<const int> TargetsOf(const ConfidenceTerm& term) const {
    return std::span(targets_).subspan(term.begin, term.end - term.begin);
  }
  bool Counts(int bottom) const {
    return bottom >= param_.propagate_down_size() || param_.propagate_down(bottom);
  }
  float Normalizer() const;

  std::optional<MultiBoxMatcher> matcher_;
  BoxShapes shapes_;
  std::vector<LocationTerm> locations_;  // of the last Forward
  std::vector<ConfidenceTerm> confidences_;
  std::vector<int> targets_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MULTIBOX_LOSS_LAYER_H_
