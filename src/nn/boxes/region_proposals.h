// Regions that a region proposal network finds in an image (Ren, He, Girshick, Sun 2015), from its
// scores and its changes of anchor boxes. Boxes are in pixels of the image that the net sees, and
// contain their last row and column.
#ifndef MILLRACE_NN_BOXES_REGION_PROPOSALS_H_
#define MILLRACE_NN_BOXES_REGION_PROPOSALS_H_

#include <cstdint>
#include <vector>

#include "nn/boxes/box.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

struct RegionProposal {
  Box box;
  float score = 0;
};

// What an image is and what the net says of it; pointers to host memory.
struct ProposalInputs {
  float height, width;              // of the image
  float least_height, least_width;  // of a proposal
  int64_t rows, columns;            // of the map
  const float* scores;              // {anchors, rows, columns}, of objects
  const float* changes;             // {anchors, 4, rows, columns}
};

class RegionProposals {
 public:
  // Throws FieldError("proposal_param...").
  explicit RegionProposals(const caffe::ProposalParameter& param);

  // The boxes at the first cell, by ratio and then by scale: with r = ratio, s = scale and
  // b = base_size, of width s round(b / sqrt(r)) and height s round(r round(b / sqrt(r))), around
  // the centre of the first b x b pixels. round: half up.
  const std::vector<Box>& anchors() const { return anchors_; }
  int64_t most() const { return param_.post_nms_topn(); }

  // The proposals of an image, best first. A cell (y, x) has all anchors, moved by feat_stride
  // (x, y). With an anchor's width w, height h, centre (cx, cy) and change (dx, dy, dw, dh), a
  // proposal has the centre (cx + w dx, cy + h dy), the width w exp(dw) and the height h exp(dh),
  // and is limited to the image. Those that are smaller than allowed, or not numbers, are left out;
  // the pre_nms_topn best are kept (of equal ones those that come first by row, column and anchor),
  // and of these the post_nms_topn best that no better one overlaps by more than nms_thresh.
  std::vector<RegionProposal> Find(const ProposalInputs& inputs) const;

 private:
  const caffe::ProposalParameter param_;
  std::vector<Box> anchors_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_REGION_PROPOSALS_H_
