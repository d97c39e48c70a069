// Values of blobs in plain (row-major) order, whatever their memory layout, and generators of test
// values.
#ifndef MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_
#define MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_

#include <string>
#include <vector>

#include "base/rng.h"
#include "millrace/blob.h"

namespace millrace::test {

// Row-major. Every value is exactly representable as a float, so blobs hold it unchanged.
using Array = std::vector<double>;

// Index in the memory of `blob` of the element with row-major index `index`.
int64_t MemoryIndex(const Blob& blob, int64_t index);

Array GetData(const Blob& blob);
Array GetDiff(const Blob& blob);
void SetData(const Array& values, Blob* blob);
void SetDiff(const Array& values, Blob* blob);

// Whether a blob of this shape supports this layout.
bool Fits(Layout layout, const Shape& shape);
inline constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8,
                                      Layout::kBlocked16};
const char* LayoutName(Layout layout);

Array Uniform(int64_t count, double low, double high, Rng* rng);
// Values in random order, `gap` apart and at least gap / 2 from zero: a change smaller than gap / 2
// alters neither a sign nor the order of two values.
Array Apart(int64_t count, double gap, Rng* rng);

// Returns "" if all |expected - actual| <= tolerance * (1 + largest |expected|), otherwise the
// first difference.
std::string Diff(const Array& expected, const Array& actual, double tolerance = 1e-5);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_BLOB_VALUES_H_
