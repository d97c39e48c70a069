#include "nn/boxes/region_proposals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "nn/boxes/box_nms.h"

namespace millrace::inline nn {
namespace {

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

}  // namespace

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
      if (pixels.xmax - pixels.xmin < in.least_width) continue;
      if (pixels.ymax - pixels.ymin < in.least_height) continue;
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

}  // namespace millrace::inline nn
