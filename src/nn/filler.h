// Initial values of learnable parameters, with the names and formulas of Caffe's fillers. For an
// array of shape (d0, d1, ...) and count() values,
//   fan_in = count / d0,   fan_out = count / d1 (count if there is one axis)
// and n is one of them or their mean (variance_norm):
//   constant            value
//   uniform             U(min, max)
//   gaussian            N(mean, std^2); with sparse = s >= 0 a value is kept
//                       with probability s / d0 and is zero otherwise
//   xavier              U(-a, a), a = sqrt(3 / n)   (Glorot, Bengio 2010)
//   msra                N(0, 2 / n)                 (He, Zhang, Ren, Sun 2015)
//   positive_unitball   U(0, 1), then each of the d0 rows is divided by its sum
//   bilinear            the kernel of bilinear interpolation, for 4 axes with
//                       equal height and width
#ifndef MILLRACE_NN_FILLER_H_
#define MILLRACE_NN_FILLER_H_

#include <string>

#include "base/rng.h"
#include "millrace/blob.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

// Throws FieldError for an unknown type, for numbers out of range, and for a shape that the filler
// cannot fill. `field` is the path of the filler ("convolution_param.weight_filler"); errors name
// "<field>.type" and so on.
void CheckFiller(const caffe::FillerParameter& param, const Shape& shape,
                 const std::string& field = "");

// Writes ShapeCount(shape) values to `out`, row-major. Draws the same numbers from `rng` on every
// build and machine. Throws as CheckFiller does and then leaves `out` unchanged.
void Fill(const caffe::FillerParameter& param, const Shape& shape, Rng* rng, float* out);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_FILLER_H_
