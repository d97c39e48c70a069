// The regions of interest that a bottom holds: rows of 5 numbers, (image, x1, y1, x2, y2), as
// {R, 5} or {R, 5, 1, 1}.
#ifndef MILLRACE_NN_LAYERS_ROI_LIST_H_
#define MILLRACE_NN_LAYERS_ROI_LIST_H_

#include <string>

#include "millrace/layer.h"
#include "nn/layers/index_check.h"

namespace millrace::inline nn {

// Used by the thread that uses the queue.
class RoiList {
 public:
  explicit RoiList(MemorySpace& memory) : image_(memory) {}

  // For Layer::SetUp.
  void Reserve(Queue& queue) { check_.Reserve(queue); }
  // For Layer::Reshape. Throws FieldError("bottom[index]") unless `regions` has that shape, and is
  // empty if there are no images.
  void Reshape(const Blob& regions, int index, int64_t images);
  // Enqueues the check that the regions' images are below `images`.
  void EnqueueCheck(Queue& queue, const Blob& regions, int64_t images);
  // For Layer::CheckForward. Throws Error naming `layer` and the first region of no such image.
  void Check(const std::string& layer, int64_t images) const;

 private:
  Blob image_;  // of each region
  IndexCheck check_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ROI_LIST_H_
