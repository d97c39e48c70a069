// The orientation that EXIF data of an image state, and images turned by it, as OpenCV turns them.
#ifndef MILLRACE_DATA_IMAGES_ORIENTATION_H_
#define MILLRACE_DATA_IMAGES_ORIENTATION_H_

#include <string_view>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// The value of tag 0x0112, 1 to 8, of a TIFF structure: the content of a PNG's eXIf chunk, or of a
// JPEG's APP1 segment behind "Exif\0\0". 1 (upright) if there is none or if the data are damaged.
int ExifOrientation(std::string_view tiff);

// Turns and mirrors rows of pixels in (H, W, C) order so that an image of that orientation becomes
// upright; orientations 5 to 8 exchange height and width.
void MakeUpright(int orientation, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_ORIENTATION_H_
