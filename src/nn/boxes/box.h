// Rectangles of an image and their overlap. Unless a name says pixels, coordinates are shares of
// the image's width and height: 0 is the left or upper edge, 1 the right or lower one.
#ifndef MILLRACE_NN_BOXES_BOX_H_
#define MILLRACE_NN_BOXES_BOX_H_

#include <array>

namespace millrace {

struct Box {
  float xmin = 0, ymin = 0, xmax = 0, ymax = 0;
  bool operator==(const Box&) const = default;
};

// In the order in which blobs hold it.
inline std::array<float, 4> ValuesOf(const Box& box) {
  return {box.xmin, box.ymin, box.xmax, box.ymax};
}
inline Box BoxOf(const float* values) { return {values[0], values[1], values[2], values[3]}; }

// The area; 0 for a box whose edges are in the wrong order.
float Area(const Box& box);
// The pixels of a box in pixels, which contains its last row and column.
float PixelArea(const Box& box);

// Jaccard overlap of two boxes: the area of the intersection over that of the union, from 0 to 1. 0
// for boxes without a common area, and for coordinates that are not numbers.
float Overlap(const Box& a, const Box& b);

// A box in pixels, with the area that its overlap is computed from.
struct PixelBox {
  Box box;
  float area = 0;
};
// The same for boxes in pixels, whose intersection contains its last row and column.
float PixelOverlap(const PixelBox& a, const PixelBox& b);

// The box with its coordinates limited to [0, width] and [0, height].
Box Clip(const Box& box, float width = 1, float height = 1);
// Whether a part of the box lies outside of the image.
bool CrossesImage(const Box& box);

}  // namespace millrace

#endif  // MILLRACE_NN_BOXES_BOX_H_
