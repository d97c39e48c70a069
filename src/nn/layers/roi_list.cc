#include "nn/layers/roi_list.h"

#include "base/error.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

void RoiList::Reshape(const Blob& regions, int index, int64_t images) {
  if (regions.num_axes() < 1 || regions.count(1) != 5) {
    throw FieldError(StrCat("bottom[", index, "]"), ShapeText(regions.shape()),
                     " given, expected rows of 5 numbers: image, x1, y1, x2, y2");
  }
  if (images == 0 && regions.dim(0) > 0) {
    throw FieldError(StrCat("bottom[", index, "]"), regions.dim(0),
                     " regions given of no images, expected none");
  }
  image_.Reshape({regions.dim(0)});
}

void RoiList::EnqueueCheck(Queue& queue, const Blob& regions, int64_t images) {
  StridedCopy images_of_rows;
  images_of_rows.AddAxis(regions.dim(0), 5, 1);
  images_of_rows.Run(queue, regions.data(), image_.data());
  check_.Enqueue(queue, images, regions.dim(0), image_.data());
}

void RoiList::Check(const std::string& layer, int64_t images) const {
  check_.Check(layer, images, image_);
}

}  // namespace millrace::inline nn
