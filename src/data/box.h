// Rectangles of an image, in shares of its width and height unless a name says pixels: 0 is the
// left or upper edge, 1 the right or lower one.
#ifndef MILLRACE_DATA_BOX_H_
#define MILLRACE_DATA_BOX_H_

namespace millrace::inline data {

struct Box {
  float xmin = 0, ymin = 0, xmax = 0, ymax = 0;
  bool operator==(const Box&) const = default;
};

// The area; 0 for a box whose edges are in the wrong order.
float Area(const Box& box);
// The common part; an empty box at the origin if there is none.
Box Intersection(const Box& a, const Box& b);
// Jaccard overlap of two boxes: the area of the intersection over that of the union, from 0 to 1. 0
// for boxes without a common area, and for coordinates that are not numbers.
float Overlap(const Box& a, const Box& b);
// The box with its coordinates limited to [0, width] and [0, height].
Box Clip(const Box& box, float width = 1, float height = 1);

// ---- Boxes in pixels ----

// The pixels of a box, which contains its last row and column.
float PixelArea(const Box& box);

// A box in pixels, with the area that its overlap is computed from.
struct PixelBox {
  Box box;
  float area = 0;
};
// As Overlap, for boxes whose intersection contains its last row and column.
float PixelOverlap(const PixelBox& a, const PixelBox& b);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BOX_H_
