// MultiBoxLoss as plain loops in double precision, for tests of the layer.
#ifndef MILLRACE_TEST_NN_MULTIBOX_REFERENCE_H_
#define MILLRACE_TEST_NN_MULTIBOX_REFERENCE_H_

#include <string>

#include "proto/caffe.pb.h"
#include "test/support/blob_values.h"

namespace millrace::test {

struct MultiBoxInputs {
  int images = 0, priors = 0;
  Array locations, confidences, prior_values, truth;  // of the bottoms
};

struct MultiBoxResult {
  double loss = 0;
  Array location_diff, confidence_diff;  // for a derivative of 1 by the loss
};

// `param`: with multibox_loss_param and loss_param.
MultiBoxResult PlainMultiBoxLoss(const caffe::LayerParameter& param, const MultiBoxInputs& inputs);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_MULTIBOX_REFERENCE_H_
