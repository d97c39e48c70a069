// The net of test::SmallNet (with its convolution) and SGD, as direct loops in double precision:
// slow, and independent of the program's own code.
#ifndef MILLRACE_TEST_TRAIN_NAIVE_NET_H_
#define MILLRACE_TEST_TRAIN_NAIVE_NET_H_

#include <vector>

#include "proto/caffe.pb.h"

namespace millrace::test {

class NaiveNet {
 public:
  static constexpr int kSide = 8, kConv = 6, kKernel = 3, kHidden = 16, kClasses = 4;

  // Takes its initial weights from a saved model of that net.
  explicit NaiveNet(const caffe::NetParameter& model);

  // Adds the gradient of one image, of its loss divided by `batch`. Returns that loss. `image`
  // holds kSide x kSide values after the data transformation.
  double AddExample(const std::vector<double>& image, int label, double batch);
  // v = momentum v + rate lr_mult (gradient + decay decay_mult w); w = w - v. Biases of inner
  // products have lr_mult 2 and decay_mult 0. Clears the gradients.
  void Step(double rate, double momentum, double decay);

  // Weights in the order of a saved model.
  std::vector<double> Weights() const;

 private:
  struct Array {
    std::vector<double> w, gradient, velocity;
    double lr_mult, decay_mult;
  };
  Array conv_w_, conv_b_, hidden_w_, hidden_b_, scores_w_, scores_b_;
  std::vector<Array*> All() {
    return {&conv_w_, &conv_b_, &hidden_w_, &hidden_b_, &scores_w_, &scores_b_};
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRAIN_NAIVE_NET_H_
