#include "nn/layers/shape/strided_copy.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "device/kernel.h"
#include "nn/layers/shape/copy_kernels.h"

namespace millrace::inline nn {
namespace {

// A GPU computes a row with a team of threads. Shorter rows would leave most of them idle.
constexpr int64_t kMinRow = 64;
// A kernel costs less than this number of separate copies.
constexpr int64_t kMaxCopies = 4;

}  // namespace

void StridedCopy::AddAxis(int64_t size, int64_t from_step, int64_t to_step) {
  StridedBlock& b = block_;
  if (size == 1) return;
  if (b.axes > 0 && b.from_step[b.axes - 1] == size * from_step &&
      b.to_step[b.axes - 1] == size * to_step) {
    --b.axes;
    size *= b.size[b.axes];
  }
  if (b.axes == StridedBlock::kMaxAxes) {
    throw Error("more than ", StridedBlock::kMaxAxes,
                " axes have to be moved, which is not "
                "supported");
  }
  b.size[b.axes] = size;
  b.from_step[b.axes] = from_step;
  b.to_step[b.axes] = to_step;
  ++b.axes;
}

StridedCopy StridedCopy::Reversed() const {
  StridedCopy reversed = *this;
  std::swap(reversed.block_.from_step, reversed.block_.to_step);
  return reversed;
}

int64_t StridedCopy::count(int axes) const {
  int64_t count = 1;
  for (int axis = 0; axis < axes; ++axis) count *= block_.size[axis];
  return count;
}

void StridedCopy::Run(Queue& queue, const float* from, float* to) const {
  const StridedBlock& b = block_;
  if (b.axes == 0) return queue.Copy(to, from, sizeof(float));
  const int last = b.axes - 1;
  const int64_t rows = count(last), row = b.size[last];
  if (rows * row == 0) return;
  const bool whole_rows = b.from_step[last] == 1 && b.to_step[last] == 1;
  const bool on_host = queue.device().type() == DeviceType::kCpu;
  if (whole_rows && (on_host || rows <= kMaxCopies)) {
    for (int64_t i = 0; i < rows; ++i) {
      int64_t source = 0, destination = 0;
      b.Locate(last, i, &source, &destination);
      queue.Copy(to + destination, from + source, row * sizeof(float));
    }
  } else if (on_host || row >= kMinRow) {
    Launch(queue, rows, CopyRows{b, from, to});
  } else {
    Launch(queue, rows * row, CopyElements{b, from, to});
  }
}

namespace {

// One kernel, for at most kMaxParts parts, which begin at value `from` of the rows of the whole.
template <bool kJoin>
void Copy(Queue& queue, int64_t outer, int64_t row, int64_t from, const std::vector<int64_t>& sizes,
          const std::vector<float*>& parts, float* whole) {
  const int64_t span = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  bool packs = row % kPack == 0 && from % kPack == 0;
  const auto aligned = [](const float* array) {
    return reinterpret_cast<uintptr_t>(array) % sizeof(ElementPack) == 0;
  };
  packs = packs && aligned(whole) && std::all_of(parts.begin(), parts.end(), aligned);
  for (const int64_t size : sizes) packs = packs && size % kPack == 0;
  const auto run = [&](auto value, int64_t unit) {
    using Value = decltype(value);
    CopyParts<Value, kJoin> kernel{};
    kernel.span = span / unit;
    kernel.row = row / unit;
    kernel.from = from / unit;
    kernel.parts = static_cast<int>(parts.size());
    int64_t begin = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      kernel.begin[p] = begin;
      kernel.size[p] = sizes[p] / unit;
      kernel.part[p] = reinterpret_cast<Value*>(parts[p]);
      begin += kernel.size[p];
    }
    kernel.whole = reinterpret_cast<Value*>(whole);
    Launch(queue, outer * kernel.span, kernel);
  };
  packs ? run(ElementPack(), kPack) : run(float(), 1);
}

template <bool kJoin>
void CopyAll(Queue& queue, int64_t outer, const std::vector<int64_t>& sizes,
             const std::vector<float*>& parts, float* whole) {
  constexpr int64_t kMaxParts = CopyParts<float, kJoin>::kMaxParts;
  const int64_t row = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  int64_t from = 0;
  for (int64_t first = 0; first < std::ssize(parts); first += kMaxParts) {
    const int64_t end = std::min(first + kMaxParts, std::ssize(parts));
    const std::vector<int64_t> some(sizes.begin() + first, sizes.begin() + end);
    Copy<kJoin>(queue, outer, row, from, some, {parts.begin() + first, parts.begin() + end}, whole);
    from += std::accumulate(some.begin(), some.end(), int64_t{0});
  }
}

}  // namespace

BlobParts::BlobParts(const Blob& whole, const Blobs& parts, int axis)
    : outer_(whole.count(0, axis)) {
  for (const Blob* part : parts) sizes_.push_back(part->count(axis));
}

void BlobParts::Join(Queue& queue, const std::vector<const float*>& parts, float* whole) const {
  std::vector<float*> arrays;  // of which the kernel only reads
  for (const float* part : parts) arrays.push_back(const_cast<float*>(part));
  CopyAll<true>(queue, outer_, sizes_, arrays, whole);
}

void BlobParts::Divide(Queue& queue, const float* whole, const std::vector<float*>& parts) const {
  CopyAll<false>(queue, outer_, sizes_, parts, const_cast<float*>(whole));
}

}  // namespace millrace::inline nn
