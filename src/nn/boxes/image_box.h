// Boxes in the pixels of the image that they were found in, before it was resized for the net.
#ifndef MILLRACE_NN_BOXES_IMAGE_BOX_H_
#define MILLRACE_NN_BOXES_IMAGE_BOX_H_

#include <string>
#include <vector>

#include "nn/boxes/box.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

struct NamedImage {
  std::string name;
  int height = 0, width = 0;  // pixels
};

// Reads a name_size_file: lines "name height width". Throws FieldError(`field`, ...) with the path
// if there is no such file, if it has no lines, or for a line that is none of these.
std::vector<NamedImage> ReadNamedImages(const std::string& path, const std::string& field);

// Throws FieldError(`field`, ...) for a resize_param that InPixels cannot use.
void CheckResize(const caffe::ResizeParameter& resize, const std::string& field);

// The box, limited to the image. `resize`: how the image was resized; null: each axis by itself.
// With FIT_LARGE_SIZE_AND_PAD, the borders that were added are taken off. With FIT_SMALL_SIZE and
// height_scale and width_scale, shares are of these sizes.
PixelBox InPixels(const Box& box, const NamedImage& image, const caffe::ResizeParameter* resize);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_IMAGE_BOX_H_
