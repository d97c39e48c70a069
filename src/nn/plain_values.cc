#include "nn/plain_values.h"

#include <utility>

#include "nn/layout.h"

namespace millrace::inline nn {
namespace {

// `values` in the memory order of `blob`.
std::vector<float> Plain(const Blob& blob, std::vector<float> values) {
  if (blob.layout() == Layout::kPlain) return values;
  const SpatialView view = ViewOf(blob);
  const int64_t area = view.height * view.width;
  std::vector<float> plain(values.size());
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    const int64_t begin = outer * area * view.inner;
    for (int64_t at = 0; at < area; ++at) {
      for (int64_t inner = 0; inner < view.inner; ++inner) {
        plain[begin + inner * area + at] = values[begin + at * view.inner + inner];
      }
    }
  }
  return plain;
}

}  // namespace

std::vector<float> PlainData(const Blob& blob) {
  std::vector<float> values(blob.count());
  blob.CopyDataToHost(values.data());
  return Plain(blob, std::move(values));
}

std::vector<float> PlainDiff(const Blob& blob) {
  std::vector<float> values(blob.count());
  blob.CopyDiffToHost(values.data());
  return Plain(blob, std::move(values));
}

}  // namespace millrace::inline nn
