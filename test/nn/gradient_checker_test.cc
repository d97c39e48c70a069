// Verifies that the checker detects errors, with layers that have one deliberate error each.
#include "test/support/gradient_checker.h"

#include "test/support/blob_values.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

enum class Mistake {
  kNone,
  kFactor,          // gradients are 2 % too large
  kParamFactor,     // the parameter's gradient is 2 % too large
  kAddsToBottom,    // adds to the bottom's diff instead of overwriting it
  kForgetsToAdd,    // ignores has_gradient
  kIgnoresAsked,    // writes gradients of bottoms that are not requested
  kIgnoresWanted,   // writes gradients of parameters that are not wanted
  kChangesValues,   // Backward writes to a bottom's data
  kWrongAtOnePlace  // one element of the gradient is zero
};

// top = w a^2 + |b| elementwise, with the learnable array w.
class GradientCheckerSubject : public Layer {
 public:
  GradientCheckerSubject(Mistake mistake, int64_t count)
      : Layer(caffe::LayerParameter(), LayerContext()), mistake_(mistake) {
    AddParam({count}, caffe::FillerParameter());
  }
  void Reshape(const Blobs& bottom, const Blobs& top) override { top[0]->ReshapeLike(*bottom[0]); }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const float *a = bottom[0]->data(), *b = bottom[1]->data(), *w = params_[0].blob->data();
    for (int64_t i = 0; i < bottom[0]->count(); ++i) {
      top[0]->data()[i] = w[i] * a[i] * a[i] + std::abs(b[i]);
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const float *a = bottom[0]->data(), *b = bottom[1]->data(), *w = params_[0].blob->data();
    const float* d = top[0]->diff();
    const int64_t count = bottom[0]->count();
    const bool adds = *params_[0].has_gradient && mistake_ != Mistake::kForgetsToAdd;
    for (int64_t i = 0; i < count; ++i) {
      if (propagate_down[0]) {
        float& out = bottom[0]->diff()[i];
        const float gradient = d[i] * 2 * w[i] * a[i];
        out = mistake_ == Mistake::kAddsToBottom ? out + gradient
              : mistake_ == Mistake::kFactor     ? 1.02f * gradient
                                                 : gradient;
      }
      if (propagate_down[1] || mistake_ == Mistake::kIgnoresAsked) {
        bottom[1]->diff()[i] = b[i] > 0 ? d[i] : -d[i];
      }
      if (params_[0].wanted || mistake_ == Mistake::kIgnoresWanted) {
        float& out = params_[0].blob->diff()[i];
        const float gradient = d[i] * a[i] * a[i];
        out = (adds ? out : 0) + (mistake_ == Mistake::kParamFactor ? 1.02f : 1) * gradient;
      }
    }
    if (mistake_ == Mistake::kWrongAtOnePlace) bottom[0]->diff()[count / 2] += 1;
    if (mistake_ == Mistake::kChangesValues) bottom[0]->data()[0] += 1;
  }

 private:
  const Mistake mistake_;
};

std::string Check(Mistake mistake, const std::vector<bool>& propagate_down = {}) {
  GradientCheckerSubject layer(mistake, 20);
  Rng rng(Seed(), {1});
  Blob a({20}), b({20}), top;
  SetData(Apart(20, 0.1, &rng), &a);
  SetData(Apart(20, 0.1, &rng), &b);
  SetData(Apart(20, 0.2, &rng), layer.params()[0].blob.get());
  layer.Reshape({&a, &b}, {&top});
  GradientCheck check;
  check.seed = Seed();
  check.propagate_down = propagate_down;
  return CheckGradients(&layer, {&a, &b}, {&top}, check);
}

TEST(GradientChecker, AcceptsARightLayer) {
  EXPECT_EQ(Check(Mistake::kNone), "");
  EXPECT_EQ(Check(Mistake::kNone, {false, true}), "");
  EXPECT_EQ(Check(Mistake::kNone, {true, false}), "");
}

TEST(GradientChecker, FindsWrongGradients) {
  EXPECT_CONTAINS(Check(Mistake::kFactor), "bottom 0");
  EXPECT_CONTAINS(Check(Mistake::kWrongAtOnePlace), "bottom 0 [10]: gradient ");
  EXPECT_CONTAINS(Check(Mistake::kParamFactor), "parameter 0");
}

TEST(GradientChecker, FindsGradientsAddedWhereTheyShouldOverwrite) {
  EXPECT_CONTAINS(Check(Mistake::kAddsToBottom), "bottom 0");
}

TEST(GradientChecker, FindsGradientsThatDoNotAccumulate) {
  EXPECT_CONTAINS(Check(Mistake::kForgetsToAdd), "expected twice the first one");
}

TEST(GradientChecker, FindsDiffsWrittenWithoutBeingAskedFor) {
  EXPECT_CONTAINS(Check(Mistake::kIgnoresAsked, {true, false}), "diff of bottom 1 was written");
  EXPECT_CONTAINS(Check(Mistake::kIgnoresWanted), "parameter 0 was written");
}

TEST(GradientChecker, FindsABackwardThatChangesValues) {
  EXPECT_CONTAINS(Check(Mistake::kChangesValues), "Backward changed the values");
}

// Some values of b are within a step of the kink of |b|, the others are not.
TEST(GradientChecker, LeavesOutKinksButNotTooMany) {
  GradientCheckerSubject layer(Mistake::kNone, 8);
  Blob a({8}), b({8}), top;
  SetData(Array(8, 0.5), &a);
  SetData(Array(8, 0.25), layer.params()[0].blob.get());
  layer.Reshape({&a, &b}, {&top});
  GradientCheck check;
  check.seed = Seed();
  for (double near : {0.0001, 0.001, 0.004, 0.0067, 0.01, 0.015}) {
    SCOPED_TRACE(near);
    SetData({near, 0.5, 1, -1, 2, -2, 3, -0.5}, &b);
    EXPECT_EQ(CheckGradients(&layer, {&a, &b}, {&top}, check), "");
    SetData({near, -near, near, -near, near, -near, 3, -0.5}, &b);
    EXPECT_CONTAINS(CheckGradients(&layer, {&a, &b}, {&top}, check),
                    "bottom 1: 6 of 8 elements lie at kinks");
  }
}

TEST(GradientChecker, LeavesValuesAsTheyWere) {
  GradientCheckerSubject layer(Mistake::kNone, 3);
  Blob a({3}), b({3}), top;
  SetData({1, 2, 3}, &a);
  SetData({4, -5, 6}, &b);
  SetData({7, 8, 9}, layer.params()[0].blob.get());
  layer.Reshape({&a, &b}, {&top});
  EXPECT_EQ(CheckGradients(&layer, {&a, &b}, {&top}), "");
  EXPECT_EQ(GetData(a), (Array{1, 2, 3}));
  EXPECT_EQ(GetData(b), (Array{4, -5, 6}));
  EXPECT_EQ(GetData(*layer.params()[0].blob), (Array{7, 8, 9}));
}

}  // namespace
}  // namespace millrace::test
