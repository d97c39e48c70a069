#include "nn/layers/strided_copy.h"

#include <algorithm>

#include "base/error.h"
#include "device/kernel.h"

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

}  // namespace millrace::inline nn
