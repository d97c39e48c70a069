#include "test/support/blob_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace millrace::test {
namespace {

int64_t BlockOf(Layout layout) { return layout == Layout::kBlocked8 ? 8 : 16; }

Array Get(const Blob& blob, const float* memory) {
  Array values(blob.count());
  for (int64_t i = 0; i < blob.count(); ++i) values[i] = memory[MemoryIndex(blob, i)];
  return values;
}

void Set(const Array& values, const Blob& blob, float* memory) {
  if (static_cast<int64_t>(values.size()) != blob.count()) {
    throw Error(values.size(), " values for a blob of shape ", ShapeText(blob.shape()));
  }
  for (int64_t i = 0; i < blob.count(); ++i) {
    memory[MemoryIndex(blob, i)] = static_cast<float>(values[i]);
  }
}

}  // namespace

int64_t MemoryIndex(const Blob& blob, int64_t index) {
  if (blob.layout() == Layout::kPlain) return index;
  const int64_t channels = blob.dim(1), height = blob.dim(2), width = blob.dim(3);
  const int64_t w = index % width;
  const int64_t h = index / width % height;
  const int64_t c = index / (width * height) % channels;
  const int64_t n = index / (width * height * channels);
  if (blob.layout() == Layout::kNhwc) return ((n * height + h) * width + w) * channels + c;
  const int64_t block = BlockOf(blob.layout());
  return (((n * (channels / block) + c / block) * height + h) * width + w) * block + c % block;
}

Array GetData(const Blob& blob) { return Get(blob, blob.data()); }
Array GetDiff(const Blob& blob) { return Get(blob, blob.diff()); }
void SetData(const Array& values, Blob* blob) { Set(values, *blob, blob->data()); }
void SetDiff(const Array& values, Blob* blob) { Set(values, *blob, blob->diff()); }

bool Fits(Layout layout, const Shape& shape) {
  if (layout == Layout::kPlain) return true;
  if (shape.size() != 4) return false;
  return layout == Layout::kNhwc || shape[1] % BlockOf(layout) == 0;
}

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kNhwc:
      return "nhwc";
    case Layout::kBlocked8:
      return "blocked8";
    case Layout::kBlocked16:
      return "blocked16";
  }
  return "unknown";
}

Array Uniform(int64_t count, double low, double high, Rng* rng) {
  Array values(count);
  for (double& value : values) value = static_cast<float>(low + (high - low) * rng->Uniform());
  return values;
}

Array Apart(int64_t count, double gap, Rng* rng) {
  Array values(count);
  std::iota(values.begin(), values.end(), -static_cast<double>(count / 2));
  for (double& value : values) value = static_cast<float>((value + 0.5) * gap);
  for (int64_t i = count - 1; i > 0; --i) std::swap(values[i], values[rng->Below(i + 1)]);
  return values;
}

std::string Diff(const Array& expected, const Array& actual, double tolerance) {
  if (expected.size() != actual.size()) {
    return StrCat(actual.size(), " values, expected ", expected.size());
  }
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    // This form treats NaN as different from every value.
    if (!(std::abs(expected[i] - actual[i]) <= tolerance * (1 + largest))) {
      return StrCat("value ", i, " of ", expected.size(), " is ", actual[i], ", expected ",
                    expected[i]);
    }
  }
  return "";
}

}  // namespace millrace::test
