// How boxes are coded as differences from prior boxes, and the shapes of blobs that hold them.
#ifndef MILLRACE_CONTRIB_DETECTION_BOX_CODE_H_
#define MILLRACE_CONTRIB_DETECTION_BOX_CODE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "contrib/detection/boxes.h"
#include "millrace/layer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// How a net's location output describes a box b relative to a prior box p (SSD, Liu and others
// 2016). With width w, height h, centre (cx, cy) of each, and v the variances of the prior:
//   CORNER       (b.xmin - p.xmin) / v0, (b.ymin - p.ymin) / v1, ... of all four edges
//   CENTER_SIZE  (b.cx - p.cx) / p.w / v0, (b.cy - p.cy) / p.h / v1, log(b.w / p.w) / v2,
//                log(b.h / p.h) / v3
//   CORNER_SIZE  as CORNER, divided by p.w or p.h
// Where the variance is in the target, the v are 1 here, and the loss divides by them.
struct Prior {
  Box box;
  std::array<float, 4> variance = {1, 1, 1, 1};
};

// The priors of a blob {1, 2, 4 * count}: their boxes, then their variances.
std::vector<Prior> ReadPriors(const float* values, int64_t count);

class BoxCode {
 public:
  using Type = caffe::PriorBoxParameter::CodeType;
  using Values = std::array<float, 4>;

  BoxCode(Type type, bool variance_in_target)
      : type_(type), variance_in_target_(variance_in_target) {}

  // The code of `box`. Throws Error for what has none: a prior or, with CENTER_SIZE, a box without
  // an area, and a variance that is not positive.
  Values Encode(const Prior& prior, const Box& box) const;
  // The box with this code. Throws Error for a prior without an area, unless the type is CORNER.
  Box Decode(const Prior& prior, const float* code) const;

 private:
  Values Variance(const Prior& prior) const {
    return variance_in_target_ ? Values{1, 1, 1, 1} : prior.variance;
  }

  Type type_;
  bool variance_in_target_;
};

// The bottoms of layers that work on the boxes of SSD:
//   locations    {images, priors * location classes * 4}
//   confidences  {images, priors * classes}
//   priors       {1, 2, priors * 4}, see PriorBox
// Further axes of size 1 may follow.
struct BoxShapes {
  int64_t images = 0, priors = 0;
};

// Throws FieldError if bottoms 0 to 2 do not fit to each other and to these numbers of classes.
BoxShapes BoxShapesOf(const Blobs& bottom, int64_t location_classes, int64_t classes);

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_BOX_CODE_H_
