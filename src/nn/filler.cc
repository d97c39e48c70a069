#include "nn/filler.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "proto/parse.h"

namespace millrace::inline nn {
namespace {

using caffe::FillerParameter;

// ---- Requirements of each filler; `at` makes the path of a field. ----

class Field {
 public:
  explicit Field(const std::string& parent) : prefix_(parent.empty() ? "" : parent + ".") {}
  std::string operator()(const char* name) const { return prefix_ + name; }

 private:
  std::string prefix_;
};

void CheckNothing(const FillerParameter&, const Shape&, const Field&) {}

void CheckUniform(const FillerParameter& param, const Shape&, const Field& at) {
  if (!(param.min() <= param.max())) {
    throw FieldError(at("min"), param.min(), " given, expected at most max (", param.max(), ")");
  }
}

void CheckGaussian(const FillerParameter& param, const Shape& shape, const Field& at) {
  if (!(param.std() >= 0)) {
    throw FieldError(at("std"), param.std(), " given, expected a number that is not negative");
  }
  if (param.sparse() < -1) {
    throw FieldError(at("sparse"), param.sparse(),
                     " given, expected a number that is not negative");
  }
  if (param.sparse() >= 0 && shape.empty()) {
    throw FieldError(at("sparse"), "needs an array with at least one axis");
  }
}

void CheckRows(const FillerParameter& param, const Shape& shape, const Field& at) {
  if (shape.empty()) {
    throw FieldError(at("type"), param.type(), " needs an array with at least one axis");
  }
}

void CheckBilinear(const FillerParameter& param, const Shape& shape, const Field& at) {
  if (shape.size() != 4 || shape[2] != shape[3]) {
    throw FieldError(at("type"), param.type(),
                     " needs an array with 4 axes and equal height and width, not ",
                     ShapeText(shape));
  }
}

// ---- Values of each filler. ----

void DrawUniform(double low, double high, int64_t count, Rng* rng, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(low + (high - low) * rng->Uniform());
  }
}

void DrawGaussian(double mean, double std, int64_t count, Rng* rng, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(mean + std * rng->Gaussian());
  }
}

// The divisor in the variance of xavier and msra.
double Fan(const FillerParameter& param, const Shape& shape) {
  const double count = static_cast<double>(ShapeCount(shape));
  const double fan_in = count / shape[0];
  const double fan_out = shape.size() > 1 ? count / shape[1] : count;
  switch (param.variance_norm()) {
    case FillerParameter::FAN_OUT:
      return fan_out;
    case FillerParameter::AVERAGE:
      return (fan_in + fan_out) / 2;
    case FillerParameter::FAN_IN:
      break;
  }
  return fan_in;
}

void FillConstant(const FillerParameter& param, const Shape& shape, Rng*, float* out) {
  std::fill_n(out, ShapeCount(shape), param.value());
}

void FillUniform(const FillerParameter& param, const Shape& shape, Rng* rng, float* out) {
  DrawUniform(param.min(), param.max(), ShapeCount(shape), rng, out);
}

void FillGaussian(const FillerParameter& param, const Shape& shape, Rng* rng, float* out) {
  const int64_t count = ShapeCount(shape);
  DrawGaussian(param.mean(), param.std(), count, rng, out);
  if (param.sparse() < 0) return;
  const float kept = static_cast<float>(param.sparse()) / static_cast<float>(shape[0]);
  for (int64_t i = 0; i < count; ++i) {
    if (rng->Uniform() >= kept) out[i] = 0;
  }
}

void FillXavier(const FillerParameter& param, const Shape& shape, Rng* rng, float* out) {
  const double limit = std::sqrt(3 / Fan(param, shape));
  DrawUniform(-limit, limit, ShapeCount(shape), rng, out);
}

void FillMsra(const FillerParameter& param, const Shape& shape, Rng* rng, float* out) {
  DrawGaussian(0, std::sqrt(2 / Fan(param, shape)), ShapeCount(shape), rng, out);
}

void FillPositiveUnitball(const FillerParameter&, const Shape& shape, Rng* rng, float* out) {
  const int64_t count = ShapeCount(shape);
  const int64_t row = count / shape[0];
  DrawUniform(0, 1, count, rng, out);
  for (float* begin = out; begin != out + count; begin += row) {
    double sum = 0;
    for (int64_t i = 0; i < row; ++i) sum += begin[i];
    // A row of zeros cannot be normalised: it becomes the centre of the simplex.
    for (int64_t i = 0; i < row; ++i) {
      begin[i] = static_cast<float>(sum > 0 ? begin[i] / sum : 1.0 / row);
    }
  }
}

void FillBilinear(const FillerParameter&, const Shape& shape, Rng*, float* out) {
  const int64_t size = shape[3];
  const double factor = std::ceil(size / 2.0);
  const double centre = (size - 1) / (2 * factor);
  const auto hat = [&](int64_t i) { return 1 - std::abs(i / factor - centre); };
  const int64_t count = ShapeCount(shape);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(hat(i % size) * hat(i / size % size));
  }
}

struct Filler {
  const char* type;
  void (*check)(const FillerParameter&, const Shape&, const Field&);
  void (*fill)(const FillerParameter&, const Shape&, Rng*, float*);
};

constexpr Filler kFillers[] = {
    {"constant", CheckNothing, FillConstant},
    {"uniform", CheckUniform, FillUniform},
    {"gaussian", CheckGaussian, FillGaussian},
    {"xavier", CheckRows, FillXavier},
    {"msra", CheckRows, FillMsra},
    {"positive_unitball", CheckRows, FillPositiveUnitball},
    {"bilinear", CheckBilinear, FillBilinear},
};

const Filler& Find(const FillerParameter& param, const Field& at) {
  const Filler* found =
      std::find_if(std::begin(kFillers), std::end(kFillers),
                   [&](const Filler& filler) { return param.type() == filler.type; });
  if (found != std::end(kFillers)) return *found;
  std::string known;
  for (const Filler& filler : kFillers) known += StrCat(known.empty() ? "" : ", ", filler.type);
  throw FieldError(at("type"), "there is no filler '", param.type(), "'; known: ", known);
}

}  // namespace

void CheckFiller(const FillerParameter& param, const Shape& shape, const std::string& field) {
  const Field at(field);
  const Filler& filler = Find(param, at);
  if (param.sparse() != -1 && filler.fill != FillGaussian) {
    throw FieldError(at("sparse"), "only the gaussian filler has it, not ", param.type());
  }
  filler.check(param, shape, at);
}

void Fill(const FillerParameter& param, const Shape& shape, Rng* rng, float* out) {
  CheckFiller(param, shape);
  if (ShapeCount(shape) == 0) return;
  Find(param, Field("")).fill(param, shape, rng, out);
}

}  // namespace millrace::inline nn
