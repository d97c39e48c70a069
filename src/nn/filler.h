// Start values of learnable parameters.
#ifndef MILLRACE_NN_FILLER_H_
#define MILLRACE_NN_FILLER_H_

#include "base/rng.h"
#include "nn/blob.h"
#include "proto/caffe.pb.h"

namespace millrace {

void Fill(const caffe::FillerParameter& param, const Shape& shape, Rng* rng, float* out);

}  // namespace millrace

#endif  // MILLRACE_NN_FILLER_H_
