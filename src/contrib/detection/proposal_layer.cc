#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "contrib/detection/boxes.h"
#include "millrace/layer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {
namespace {

// Regions that a region proposal network finds in an image (Ren, He, Girshick, Sun 2015), from its
// scores and its changes of anchor boxes. Boxes are in pixels of the image that the net sees, and
// contain their last row and column.
struct RegionProposal {
  Box box;
  float score = 0;
};

// What an image is and what the net says of it; pointers to host memory.
struct ProposalInputs {
  float height, width;          // of the image
  float min_height, min_width;  // of a proposal
  int64_t rows, columns;        // of the map
  const float* scores;          // {anchors, rows, columns}, of objects
  const float* changes;         // {anchors, 4, rows, columns}
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

constexpr int64_t kMax = 1 << 20;  // of counts and pixels

void CheckRange(const char* field, int64_t value, int64_t least) {
  if (value >= least && value <= kMax) return;
  throw FieldError(StrCat("proposal_param.", field), value, " given, expected ", least, " to ",
                   kMax);
}

template <typename Numbers>
std::vector<double> PositiveNumbers(const char* field, const Numbers& given,
                                    std::vector<double> otherwise) {
  if (given.empty()) return otherwise;
  for (const float each : given) {
    if (each > 0 && std::isfinite(each)) continue;
    throw FieldError(StrCat("proposal_param.", field), each, " given, expected a positive number");
  }
  return {given.begin(), given.end()};
}

double Round(double value) { return std::floor(value + 0.5); }

float Limit(float value, float most) { return std::max(std::min(value, most), 0.0f); }

// `anchor` changed, before it is limited to the image.
Box Changed(const Box& anchor, const float (&change)[4]) {
  const float width = anchor.xmax - anchor.xmin + 1, height = anchor.ymax - anchor.ymin + 1;
  const float x = anchor.xmin + 0.5f * width + width * change[0];
  const float y = anchor.ymin + 0.5f * height + height * change[1];
  const float half_width = 0.5f * width * std::exp(change[2]);
  const float half_height = 0.5f * height * std::exp(change[3]);
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

bool HasNumbers(const Box& box) {
  const auto values = ValuesOf(box);
  return std::none_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

RegionProposals::RegionProposals(const caffe::ProposalParameter& param) : param_(param) {
  CheckRange("feat_stride", param.feat_stride(), 1);
  CheckRange("base_size", param.base_size(), 1);
  CheckRange("min_size", param.min_size(), 0);
  CheckRange("pre_nms_topn", param.pre_nms_topn(), 1);
  CheckRange("post_nms_topn", param.post_nms_topn(), 1);
  if (!(param.nms_thresh() >= 0)) {
    throw FieldError("proposal_param.nms_thresh", param.nms_thresh(),
                     " given, expected at least 0");
  }
  const double base = param.base_size(), centre = 0.5 * (base - 1);
  const std::vector<double> scales = PositiveNumbers("scale", param.scale(), {8, 16, 32});
  for (const double ratio : PositiveNumbers("ratio", param.ratio(), {0.5, 1, 2})) {
    const double width = Round(std::sqrt(base * base / ratio)), height = Round(width * ratio);
    for (const double scale : scales) {
      const double x = 0.5 * (width * scale - 1), y = 0.5 * (height * scale - 1);
      anchors_.push_back({static_cast<float>(centre - x), static_cast<float>(centre - y),
                          static_cast<float>(centre + x), static_cast<float>(centre + y)});
    }
  }
}

std::vector<RegionProposal> RegionProposals::Find(const ProposalInputs& in) const {
  const int64_t area = in.rows * in.columns;
  const auto stride = static_cast<float>(param_.feat_stride());
  // With the last row and column as an edge, so that overlaps of boxes are those of their pixels.
  std::vector<Box> boxes;
  std::vector<float> scores;
  for (int64_t cell = 0; cell < area; ++cell) {
    const float x = static_cast<float>(cell % in.columns) * stride;
    const float y = static_cast<float>(cell / in.columns) * stride;
    for (size_t a = 0; a < anchors_.size(); ++a) {
      float change[4];
      for (size_t k = 0; k < 4; ++k) change[k] = in.changes[(a * 4 + k) * area + cell];
      const Box& own = anchors_[a];
      const Box box = Changed({own.xmin + x, own.ymin + y, own.xmax + x, own.ymax + y}, change);
      if (!HasNumbers(box)) continue;
      const Box pixels = {Limit(box.xmin, in.width - 1), Limit(box.ymin, in.height - 1),
                          Limit(box.xmax, in.width - 1) + 1, Limit(box.ymax, in.height - 1) + 1};
      if (pixels.xmax - pixels.xmin < in.min_width) continue;
      if (pixels.ymax - pixels.ymin < in.min_height) continue;
      boxes.push_back(pixels);
      scores.push_back(in.scores[a * area + cell]);
    }
  }
  NmsRules rules{std::numeric_limits<float>::lowest()};
  rules.threshold = param_.nms_thresh();
  rules.top_k = param_.pre_nms_topn();
  rules.keep = param_.post_nms_topn();
  std::vector<RegionProposal> found;
  for (const int i : SuppressBoxes(boxes, scores, rules)) {
    const Box& box = boxes[i];
    found.push_back({{box.xmin, box.ymin, box.xmax - 1, box.ymax - 1}, scores[i]});
  }
  return found;
}

// The regions that Faster R-CNN (Ren, He, Girshick, Sun 2015) proposes, as in its Python layer and
// in the C++ layer of forks of Caffe (contrib/detection/proposal_layer.cc).
//
// Bottoms, for A = ratios times scales anchors:
//   scores   {N, 2A, H, W} after softmax; the second half of the channels are those of objects
//   changes  {N, 4A, H, W}
//   images   N rows of at least 3 numbers: height, width, the factor that the image was resized by,
//            and perhaps that of its width if it is another. Proposals have at least
//            min_size * factor pixels on each side.
// top[0] {R, 5}: image of the batch, x1, y1, x2, y2 (roi_pooling_layers.cc), by image, best first;
// R is at most N post_nms_topn, and 0 if nothing is found. top[1] (optional) {R}: their scores.
// Forks that fill the rest of N post_nms_topn rows with zeros are not followed.
//
// The host computes. From other devices the bottoms are copied to it. No gradient flows.
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

constexpr int64_t kColumns = 5;

void CheckPositive(int64_t image, const char* what, float value) {
  if (value > 0 && std::isfinite(value)) return;
  throw FieldError("bottom[2]", "image ", image, " has the ", what, " ", value,
                   ", expected a positive number");
}

void ProposalLayer::SetUp(const Blobs&, const Blobs&) {
  proposals_.emplace(param_.proposal_param());
}

void ProposalLayer::CheckShapes(const Blobs& bottom) const {
  const auto anchors = std::ssize(proposals_->anchors());
  for (int i = 0; i < 2; ++i) {
    const Shape& shape = bottom[i]->shape();
    const int64_t channels = anchors * (i == 0 ? 2 : 4);
    const Shape& first = bottom[0]->shape();
    const bool fits = shape.size() == 4 && shape[1] == channels && shape[0] == first[0] &&
                      shape[2] == first[2] && shape[3] == first[3];
    if (fits) continue;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(shape), ", expected ",
                     i == 0 ? "N " : StrCat(first[0], " "), channels,
                     i == 0 ? " H W" : StrCat(" ", first[2], " ", first[3]), ": ", i == 0 ? 2 : 4,
                     " numbers for each of ", anchors, " anchors");
  }
  const int64_t images = bottom[0]->dim(0);
  const Blob& info = *bottom[2];
  if (info.num_axes() < 2 || info.dim(0) != images || info.count(1) < 3) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(info.shape()), ", expected ", images,
                     " rows of at least 3 numbers: height, width, scale");
  }
}

void ProposalLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckShapes(bottom);
  int64_t rows;
  if (shaped_) {
    Find(bottom);
    rows = std::ssize(scores_);
  } else {
    const int64_t of_image =
        std::ssize(proposals_->anchors()) * bottom[0]->dim(2) * bottom[0]->dim(3);
    rows = bottom[0]->dim(0) * std::min(of_image, proposals_->most());
    shaped_ = true;
  }
  top[0]->Reshape({rows, kColumns});
  if (top.size() > 1) top[1]->Reshape({rows});
}

void ProposalLayer::Find(const Blobs& bottom) {
  const auto least = static_cast<float>(param_.proposal_param().min_size());
  const Blob& map = *bottom[0];
  std::vector<float> score_copy, change_copy, info_copy;
  const float* const scores = bottom[0]->DataOnHost(&score_copy);
  const float* const changes = bottom[1]->DataOnHost(&change_copy);
  const float* const infos = bottom[2]->DataOnHost(&info_copy);
  const int64_t numbers = bottom[2]->count(1);
  rows_.clear();
  scores_.clear();
  for (int64_t n = 0; n < map.dim(0); ++n) {
    const float* const info = infos + n * numbers;
    const float width_scale = numbers > 3 ? info[3] : info[2];
    CheckPositive(n, "height", info[0]);
    CheckPositive(n, "width", info[1]);
    CheckPositive(n, "scale", info[2]);
    CheckPositive(n, "scale of the width", width_scale);
    const ProposalInputs inputs = {info[0],
                                   info[1],
                                   least * info[2],
                                   least * width_scale,
                                   map.dim(2),
                                   map.dim(3),
                                   scores + n * map.count(1) + map.count(1) / 2,
                                   changes + n * bottom[1]->count(1)};
    for (const RegionProposal& each : proposals_->Find(inputs)) {
      rows_.push_back(static_cast<float>(n));
      for (const float edge : ValuesOf(each.box)) rows_.push_back(edge);
      scores_.push_back(each.score);
    }
  }
}

void ProposalLayer::Forward(const Blobs&, const Blobs& top) {
  context_.queue->Synchronize();
  top[0]->CopyDataFromHost(rows_.data());
  if (top.size() > 1) top[1]->CopyDataFromHost(scores_.data());
}

const RegisterLayer<ProposalLayer> proposal_layer("Proposal");

}  // namespace
}  // namespace millrace::inline contrib
