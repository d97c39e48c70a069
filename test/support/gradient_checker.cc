#include "test/support/gradient_checker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/rng.h"

namespace millrace::test {
namespace {

using Values = std::vector<float>;

Values Copy(const float* values, const Blob& blob) { return Values(values, values + blob.count()); }

// Initial content of diff() that Backward must overwrite, or must leave unchanged.
constexpr float kSentinel = 1e6f;

class Checker {
 public:
  Checker(Layer* layer, const Blobs& bottom, const Blobs& top, const GradientCheck& check)
      : layer_(layer), bottom_(bottom), top_(top), check_(check), rng_(check.seed, {0}) {
    propagate_ = check.propagate_down;
    for (size_t i = propagate_.size(); i < bottom.size(); ++i) {
      propagate_.push_back(layer->AllowBackward(static_cast<int>(i)));
    }
    for (const Blob* blob : bottom) bottom_values_.push_back(Copy(blob->data(), *blob));
    layer_->Forward(bottom_, top_);
    MakeWeights();
  }

  std::string Run() {
    std::string complaint = CheckBackward();
    if (complaint.empty()) complaint = CheckAccumulation();
    if (complaint.empty()) complaint = CheckUnwanted();
    for (size_t i = 0; i < bottom_.size() && complaint.empty(); ++i) {
      if (propagate_[i]) {
        complaint =
            CheckNumerically(StrCat("bottom ", i), bottom_values_[i].data(), bottom_gradients_[i]);
      }
    }
    for (size_t i = 0; i < layer_->params().size() && complaint.empty(); ++i) {
      if (!layer_->params()[i].wanted) continue;
      complaint = CheckNumerically(StrCat("parameter ", i), layer_->params()[i].blob->data(),
                                   param_gradients_[i]);
    }
    RestoreBottoms();
    return complaint;
  }

 private:
  bool InPlace(size_t bottom) const {
    return std::find(top_.begin(), top_.end(), bottom_[bottom]) != top_.end();
  }

  // An in-place layer overwrites its bottoms.
  void RestoreBottoms() {
    for (size_t i = 0; i < bottom_.size(); ++i) {
      std::copy(bottom_values_[i].begin(), bottom_values_[i].end(), bottom_[i]->data());
    }
  }

  void MakeWeights() {
    for (size_t i = 0; i < top_.size(); ++i) {
      const double scale = i < check_.top_scale.size() ? check_.top_scale[i] : 1;
      Values weights(top_[i]->count());
      for (float& weight : weights) {
        weight = static_cast<float>(scale * (0.5 + rng_.Uniform()) * (rng_.Next() % 2 ? 1 : -1));
      }
      weights_.push_back(std::move(weights));
    }
  }

  double Objective() {
    RestoreBottoms();
    layer_->Forward(bottom_, top_);
    double sum = 0;
    for (size_t i = 0; i < top_.size(); ++i) {
      const float* values = top_[i]->data();
      for (size_t k = 0; k < weights_[i].size(); ++k) {
        sum += static_cast<double>(weights_[i][k]) * values[k];
      }
    }
    return sum;
  }

  // Bound on the change of the objective by rounding of the tops to floats.
  double RoundingOfObjective() const {
    double squares = 0;
    for (size_t i = 0; i < top_.size(); ++i) {
      for (size_t k = 0; k < weights_[i].size(); ++k) {
        const double term = static_cast<double>(weights_[i][k]) * top_[i]->data()[k];
        squares += term * term;
      }
    }
    return 2e-7 * std::sqrt(squares);
  }

  void SetTopDiffs() {
    for (size_t i = 0; i < top_.size(); ++i) {
      std::copy(weights_[i].begin(), weights_[i].end(), top_[i]->diff());
    }
  }

  std::string CheckBackward() {
    Objective();
    const std::vector<Values> after_forward = BottomValues();
    for (size_t i = 0; i < bottom_.size(); ++i) {
      std::fill_n(bottom_[i]->diff(), bottom_[i]->count(), kSentinel);
    }
    std::vector<Values> param_values;
    for (Param& param : layer_->params()) {
      param_values.push_back(Copy(param.blob->data(), *param.blob));
      std::fill_n(param.blob->diff(), param.blob->count(), kSentinel);
      *param.has_gradient = false;
    }
    SetTopDiffs();
    layer_->Backward(top_, propagate_, bottom_);

    for (size_t i = 0; i < bottom_.size(); ++i) {
      bottom_gradients_.push_back(Copy(bottom_[i]->diff(), *bottom_[i]));
      if (propagate_[i] || InPlace(i)) continue;
      const Values& diff = bottom_gradients_.back();
      if (std::any_of(diff.begin(), diff.end(), [](float x) { return x != kSentinel; })) {
        return StrCat("the diff of bottom ", i, " was written without being asked for");
      }
    }
    if (BottomValues() != after_forward) return "Backward changed the values of a bottom";
    for (size_t i = 0; i < param_values.size(); ++i) {
      const Blob& blob = *layer_->params()[i].blob;
      param_gradients_.push_back(Copy(blob.diff(), blob));
      if (Copy(blob.data(), blob) != param_values[i]) {
        return StrCat("Backward changed the values of parameter ", i);
      }
    }
    return "";
  }

  std::vector<Values> BottomValues() const {
    std::vector<Values> values;
    for (const Blob* blob : bottom_) values.push_back(Copy(blob->data(), *blob));
    return values;
  }

  std::string CheckAccumulation() {
    for (Param& param : layer_->params()) *param.has_gradient = true;
    SetTopDiffs();
    layer_->Backward(top_, propagate_, bottom_);
    for (size_t i = 0; i < param_gradients_.size(); ++i) {
      if (!layer_->params()[i].wanted) continue;
      const float* twice = layer_->params()[i].blob->diff();
      const double largest = Largest(param_gradients_[i]);
      for (size_t k = 0; k < param_gradients_[i].size(); ++k) {
        const double expected = 2.0 * param_gradients_[i][k];
        if (!(std::abs(twice[k] - expected) <= 1e-4 * largest + 1e-6)) {
          return StrCat("parameter ", i, " [", k, "]: a second Backward made the gradient ",
                        twice[k], ", expected twice the first one: ", expected);
        }
      }
    }
    return "";
  }

  std::string CheckUnwanted() {
    std::vector<Param>& params = layer_->params();
    for (size_t i = 0; i < params.size(); ++i) {
      const bool wanted = params[i].wanted;
      params[i].wanted = false;
      // As at the start of an iteration, when gradients are written instead of accumulated.
      for (Param& param : params) *param.has_gradient = false;
      const size_t count = param_gradients_[i].size();
      std::fill_n(params[i].blob->diff(), count, kSentinel);
      SetTopDiffs();
      layer_->Backward(top_, propagate_, bottom_);
      params[i].wanted = wanted;
      const float* diff = params[i].blob->diff();
      if (std::any_of(diff, diff + count, [](float x) { return x != kSentinel; })) {
        return StrCat("the diff of parameter ", i, " was written though it is not wanted");
      }
    }
    return "";
  }

  static double Largest(const Values& values) {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
    return largest;
  }

  // dE/d(*x), or nullopt at a kink; `scale` is the magnitude of derivatives of this blob.
  std::optional<double> Derivative(float* x, double scale, double* rounding) {
    const float origin = *x;
    const auto at = [&](double offset, double* reached) {
      *x = static_cast<float>(origin + offset);
      *reached = static_cast<double>(*x) - origin;
      const double value = Objective();
      *x = origin;
      return value;
    };
    const double h = check_.step;
    double unused, right1, right2, left1, left2;
    const double f0 = at(0, &unused);
    *rounding = RoundingOfObjective() / h;
    const double f_right1 = at(h, &right1), f_left1 = at(-h, &left1);
    const double f_right2 = at(h / 2, &right2), f_left2 = at(-h / 2, &left2);
    const double whole = (f_right1 - f_left1) / (right1 - left1);
    const double half = (f_right2 - f_left2) / (right2 - left2);
    const double jump_whole = (f_right1 - f0) / right1 - (f_left1 - f0) / left1;
    const double jump_half = (f_right2 - f0) / right2 - (f_left2 - f0) / left2;
    const double smooth =
        check_.tolerance / 8 * std::max({scale, std::abs(whole), std::abs(half)}) + 8 * *rounding;
    if (std::abs(whole - half) > smooth || std::abs(2 * jump_half - jump_whole) > smooth) {
      return std::nullopt;
    }
    return (4 * half - whole) / 3;
  }

  // `values` is the memory that Objective() reads.
  std::string CheckNumerically(const std::string& what, float* values, const Values& gradient) {
    std::vector<size_t> order(gradient.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.Below(i)]);
    order.resize(std::min(order.size(), static_cast<size_t>(check_.samples)));
    const double scale = Largest(gradient);
    int kinks = 0;
    for (size_t k : order) {
      double rounding = 0;
      const std::optional<double> expected = Derivative(values + k, scale, &rounding);
      if (!expected) {
        ++kinks;
        continue;
      }
      const double allowed =
          check_.tolerance * std::max(scale, std::abs(*expected)) + 8 * rounding + 1e-6;
      if (!(std::abs(gradient[k] - *expected) <= allowed)) {
        return StrCat(what, " [", k, "]: gradient ", gradient[k], ", but numerically ", *expected,
                      " (allowed: ", allowed, ")");
      }
    }
    if (kinks > check_.most_kinks * order.size()) {
      return StrCat(what, ": ", kinks, " of ", order.size(), " elements lie at kinks");
    }
    return "";
  }

  Layer* const layer_;
  const Blobs bottom_, top_;
  const GradientCheck check_;
  Rng rng_;
  std::vector<bool> propagate_;
  std::vector<Values> bottom_values_;  // restored by RestoreBottoms
  std::vector<Values> weights_;        // dE/dtop
  std::vector<Values> bottom_gradients_, param_gradients_;
};

}  // namespace

std::string CheckGradients(Layer* layer, const Blobs& bottom, const Blobs& top,
                           const GradientCheck& check) {
  return Checker(layer, bottom, top, check).Run();
}

}  // namespace millrace::test
