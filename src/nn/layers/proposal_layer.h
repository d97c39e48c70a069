// The regions that Faster R-CNN (Ren, He, Girshick, Sun 2015) proposes, as in its Python layer and
// in the C++ layer of forks of Caffe (nn/boxes/region_proposals.h).
//
// Bottoms, for A = ratios times scales anchors:
//   scores   {N, 2A, H, W} after softmax; the second half of the channels are those of objects
//   changes  {N, 4A, H, W}
//   images   N rows of at least 3 numbers: height, width, the factor that the image was resized by,
//            and perhaps that of its width if it is another. Proposals have at least
//            min_size * factor pixels on each side.
// top[0] {R, 5}: image of the batch, x1, y1, x2, y2 (roi_list.h), by image, best first; R is at
// most N post_nms_topn, and 0 if nothing is found. top[1] (optional) {R}: their scores. Forks that
// fill the rest of N post_nms_topn rows with zeros are not followed.
//
// The host computes. From other devices the bottoms are copied to it. No gradient flows.
#ifndef MILLRACE_NN_LAYERS_PROPOSAL_LAYER_H_
#define MILLRACE_NN_LAYERS_PROPOSAL_LAYER_H_

#include <optional>
#include <vector>

#include "millrace/layer.h"
#include "nn/boxes/region_proposals.h"

namespace millrace::inline nn {

class ProposalLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 3, 1, 2}; }
  std::set<std::string> fields() const override { return {"proposal_param"}; }
  bool AllowBackward(int) const override { return false; }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the tops for the most proposals; later ones find them.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  void CheckShapes(const Blobs& bottom) const;
  // Fills rows_ and scores_.
  void Find(const Blobs& bottom);

  std::optional<RegionProposals> proposals_;
  bool shaped_ = false;
  std::vector<float> rows_, scores_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PROPOSAL_LAYER_H_
