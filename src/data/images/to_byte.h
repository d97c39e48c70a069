#ifndef MILLRACE_DATA_IMAGES_TO_BYTE_H_
#define MILLRACE_DATA_IMAGES_TO_BYTE_H_

#include <cmath>
#include <cstdint>

namespace millrace::inline data {

// The nearest byte, as OpenCV's saturate_cast has it: halves to even. 0 for NaN.
inline uint8_t ToByte(float value) {
  if (!(value > 0)) return 0;
  return value < 255 ? static_cast<uint8_t>(std::lrint(value)) : 255;
}

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_TO_BYTE_H_
