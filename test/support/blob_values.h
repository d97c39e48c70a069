// Values of blobs in plain (row-major) order, whatever their order in memory,
// and made-up values to fill them with.
#ifndef MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_
#define MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_

#include <string>
#include <vector>

#include "base/rng.h"
#include "nn/blob.h"

namespace millrace::test {

// Row-major; every value is exactly a float, so that blobs hold the same number.
using Array = std::vector<double>;

// Where element `index` of the plain order lies in the memory of `blob`.
int64_t MemoryIndex(const Blob& blob, int64_t index);

Array GetData(const Blob& blob);
Array GetDiff(const Blob& blob);
void SetData(const Array& values, Blob* blob);
void SetDiff(const Array& values, Blob* blob);

// Whether a blob of this shape can lie in memory in this order.
bool Fits(Layout layout, const Shape& shape);
inline constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8,
                                      Layout::kBlocked16};
const char* LayoutName(Layout layout);

Array Uniform(int64_t count, double low, double high, Rng* rng);
// A random order of numbers that are `gap` apart and at least gap / 2 from zero:
// a step below gap / 2 changes neither signs nor which of two is larger.
Array Apart(int64_t count, double gap, Rng* rng);

// "" if all |expected - actual| <= tolerance * (1 + largest |expected|); else
// the first place where they differ.
std::string Diff(const Array& expected, const Array& actual, double tolerance = 1e-5);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_
