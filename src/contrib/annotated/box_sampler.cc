#include "contrib/annotated/box_sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "contrib/annotated/object.h"
#include "proto/parse.h"

namespace millrace::inline contrib {
namespace {

void CheckSampler(const caffe::Sampler& sampler, const std::string& name) {
  if (!(sampler.min_scale() > 0 && sampler.min_scale() <= sampler.max_scale() &&
        sampler.max_scale() <= 1)) {
    throw FieldError(name + ".min_scale", sampler.min_scale(), " given and max_scale ",
                     sampler.max_scale(), ", expected 0 < min_scale <= max_scale <= 1");
  }
  if (!(sampler.min_aspect_ratio() > 0 &&
        sampler.min_aspect_ratio() <= sampler.max_aspect_ratio() &&
        std::isfinite(sampler.max_aspect_ratio()))) {
    throw FieldError(name + ".min_aspect_ratio", sampler.min_aspect_ratio(),
                     " given and max_aspect_ratio ", sampler.max_aspect_ratio(),
                     ", expected 0 < min_aspect_ratio <= max_aspect_ratio");
  }
}

Box Draw(const caffe::Sampler& sampler, Rng* rng) {
  const float scale = UniformIn(sampler.min_scale(), sampler.max_scale(), rng);
  float ratio = UniformIn(sampler.min_aspect_ratio(), sampler.max_aspect_ratio(), rng);
  ratio = std::min(std::max(ratio, scale * scale), 1 / (scale * scale));
  const float width = scale * std::sqrt(ratio), height = scale / std::sqrt(ratio);
  // By rounding, a side may be longer than 1.
  const float x = UniformIn(0, std::max(0.0f, 1 - width), rng);
  const float y = UniformIn(0, std::max(0.0f, 1 - height), rng);
  return {x, y, x + width, y + height};
}

// Whether a value lies within the bounds that are given.
bool Within(float value, bool has_min, float min, bool has_max, float max) {
  return !(has_min && value < min) && !(has_max && value > max);
}

// Whether any object fits. Without a bound, every box does.
bool Meets(const caffe::SampleConstraint& c, const Box& box, const std::vector<Object>& objects) {
  const bool jaccard = c.has_min_jaccard_overlap() || c.has_max_jaccard_overlap();
  const bool sample = c.has_min_sample_coverage() || c.has_max_sample_coverage();
  const bool object = c.has_min_object_coverage() || c.has_max_object_coverage();
  if (!jaccard && !sample && !object) return true;
  return std::any_of(objects.begin(), objects.end(), [&](const Object& each) {
    return (!jaccard ||
            Within(Overlap(box, each.box), c.has_min_jaccard_overlap(), c.min_jaccard_overlap(),
                   c.has_max_jaccard_overlap(), c.max_jaccard_overlap())) &&
           (!sample ||
            Within(CoverageOf(box, each.box), c.has_min_sample_coverage(), c.min_sample_coverage(),
                   c.has_max_sample_coverage(), c.max_sample_coverage())) &&
           (!object ||
            Within(CoverageOf(each.box, box), c.has_min_object_coverage(), c.min_object_coverage(),
                   c.has_max_object_coverage(), c.max_object_coverage()));
  });
}

}  // namespace

BoxSampler::BoxSampler(const caffe::AnnotatedDataParameter& param)
    : samplers_(param.batch_sampler().begin(), param.batch_sampler().end()) {
  for (size_t i = 0; i < samplers_.size(); ++i) {
    CheckSampler(samplers_[i].sampler(),
                 StrCat("annotated_data_param.batch_sampler[", i, "].sampler"));
  }
}

std::vector<Box> BoxSampler::Sample(const std::vector<Object>& objects, Rng* rng) const {
  std::vector<Box> boxes;
  for (const caffe::BatchSampler& sampler : samplers_) {
    if (!sampler.use_original_image()) continue;
    uint32_t found = 0;
    for (uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && found >= sampler.max_sample()) break;
      const Box box = Draw(sampler.sampler(), rng);
      if (!Meets(sampler.sample_constraint(), box, objects)) continue;
      boxes.push_back(box);
      ++found;
    }
  }
  return boxes;
}

}  // namespace millrace::inline contrib
