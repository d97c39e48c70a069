#include "contrib/detection/box_code.h"

#include <cmath>

#include "base/error.h"

namespace millrace::inline contrib {
namespace {

using caffe::PriorBoxParameter;

struct Size {
  float width, height;
};

Size SizeOf(const Box& box, const char* what) {
  const Size size{box.xmax - box.xmin, box.ymax - box.ymin};
  if (!(size.width > 0 && size.height > 0)) {
    throw Error(what, " (", box.xmin, ", ", box.ymin, ", ", box.xmax, ", ", box.ymax,
                ") has no area, expected xmin < xmax and ymin < ymax");
  }
  return size;
}

void CheckPositive(const BoxCode::Values& variance) {
  for (const float v : variance) {
    if (!(v > 0)) throw Error("the variance of a prior box is ", v, ", expected more than 0");
  }
}

float CentreX(const Box& box) { return (box.xmin + box.xmax) / 2; }
float CentreY(const Box& box) { return (box.ymin + box.ymax) / 2; }

}  // namespace

std::vector<Prior> ReadPriors(const float* values, int64_t count) {
  std::vector<Prior> priors(count);
  for (int64_t i = 0; i < count; ++i) {
    priors[i].box = BoxOf(values + 4 * i);
    for (int k = 0; k < 4; ++k) priors[i].variance[k] = values[4 * (count + i) + k];
  }
  return priors;
}

BoxCode::Values BoxCode::Encode(const Prior& prior, const Box& box) const {
  const Box& p = prior.box;
  const Values v = Variance(prior);
  CheckPositive(v);
  if (type_ == PriorBoxParameter::CENTER_SIZE) {
    const Size size = SizeOf(p, "prior box"), own = SizeOf(box, "ground truth box");
    return {(CentreX(box) - CentreX(p)) / size.width / v[0],
            (CentreY(box) - CentreY(p)) / size.height / v[1],
            std::log(own.width / size.width) / v[2], std::log(own.height / size.height) / v[3]};
  }
  const Size size = type_ == PriorBoxParameter::CORNER ? Size{1, 1} : SizeOf(p, "prior box");
  return {(box.xmin - p.xmin) / size.width / v[0], (box.ymin - p.ymin) / size.height / v[1],
          (box.xmax - p.xmax) / size.width / v[2], (box.ymax - p.ymax) / size.height / v[3]};
}

Box BoxCode::Decode(const Prior& prior, const float* code) const {
  const Box& p = prior.box;
  const Values v = Variance(prior);
  if (type_ == PriorBoxParameter::CENTER_SIZE) {
    const Size size = SizeOf(p, "prior box");
    const float x = v[0] * code[0] * size.width + CentreX(p);
    const float y = v[1] * code[1] * size.height + CentreY(p);
    const float half_width = std::exp(v[2] * code[2]) * size.width / 2;
    const float half_height = std::exp(v[3] * code[3]) * size.height / 2;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }
  const Size size = type_ == PriorBoxParameter::CORNER ? Size{1, 1} : SizeOf(p, "prior box");
  return {p.xmin + v[0] * code[0] * size.width, p.ymin + v[1] * code[1] * size.height,
          p.xmax + v[2] * code[2] * size.width, p.ymax + v[3] * code[3] * size.height};
}

namespace {

void CheckPredictions(const Blob& blob, const char* field, const BoxShapes& shapes, int64_t each) {
  if (blob.num_axes() >= 2 && blob.dim(0) == shapes.images &&
      blob.count(1) == shapes.priors * each) {
    return;
  }
  throw FieldError(field, "has shape ", ShapeText(blob.shape()), ", expected ", shapes.images,
                   " x ", shapes.priors * each, ": ", each, " values for each of ", shapes.priors,
                   " prior boxes");
}

}  // namespace

BoxShapes BoxShapesOf(const Blobs& bottom, int64_t location_classes, int64_t classes) {
  const Blob& priors = *bottom[2];
  if (priors.num_axes() < 3 || priors.dim(0) != 1 || priors.dim(1) != 2 || priors.count(2) == 0 ||
      priors.count(2) % 4 != 0) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(priors.shape()),
                     ", expected 1 x 2 x (4 per prior box), as PriorBox gives it");
  }
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(bottom[0]->shape()),
                     ", expected images and locations");
  }
  const BoxShapes shapes{bottom[0]->dim(0), priors.count(2) / 4};
  CheckPredictions(*bottom[0], "bottom[0]", shapes, 4 * location_classes);
  CheckPredictions(*bottom[1], "bottom[1]", shapes, classes);
  return shapes;
}

}  // namespace millrace::inline contrib
