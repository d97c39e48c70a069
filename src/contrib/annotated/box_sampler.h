// Draws parts of an image as SSD's batch samplers do.
#ifndef MILLRACE_CONTRIB_ANNOTATED_BOX_SAMPLER_H_
#define MILLRACE_CONTRIB_ANNOTATED_BOX_SAMPLER_H_

#include <vector>

#include "base/rng.h"
#include "contrib/annotated/object.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Thread-safe.
class BoxSampler {
 public:
  // Throws FieldError of a field of annotated_data_param.
  explicit BoxSampler(const caffe::AnnotatedDataParameter& param);

  // The boxes that the samplers find: each of them draws up to max_trials boxes and keeps those
  // that meet its constraint, at most max_sample. A sampler without use_original_image finds none,
  // as in SSD.
  //
  // A drawn box has the scale s = sqrt(width height) in [min_scale, max_scale) and the ratio a =
  // width / height in [min_aspect_ratio, max_aspect_ratio), bounded to [s^2, 1 / s^2], at any place
  // within the image.
  std::vector<Box> Sample(const std::vector<Object>& objects, Rng* rng) const;

 private:
  const std::vector<caffe::BatchSampler> samplers_;
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_BOX_SAMPLER_H_
