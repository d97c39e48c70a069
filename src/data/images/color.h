// Changes of the colours of images, with OpenCV's arithmetic for 8 bits. Results are those of
// cvtColor of OpenCV 4.6, those of HsvToBgr up to 1: some builds of OpenCV truncate there. Images
// have three channels, blue, green, red, unless they say otherwise. Thread-safe.
#ifndef MILLRACE_DATA_IMAGES_COLOR_H_
#define MILLRACE_DATA_IMAGES_COLOR_H_

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Hue (degrees / 2, 0 to 179), saturation and value (0 to 255).
void BgrToHsv(Image* image);
// A hue of 180 and more is one of 0 and more.
void HsvToBgr(Image* image);
// All channels get the grey value.
void Decolorize(Image* image);
// Spreads the histogram of grey values, or of the brightness (YCrCb) of an image of three channels.
void EqualizeHistogram(Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_COLOR_H_
