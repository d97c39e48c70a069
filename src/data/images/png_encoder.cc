#include "data/images/image_encoder.h"

#include <png.h>

#include "base/error.h"

namespace millrace::inline data {

// The simplified interface of libpng: it reports errors in the control structure.
std::string EncodePng(const Image& image) {
  png_image control = {};
  control.version = PNG_IMAGE_VERSION;
  control.width = static_cast<png_uint_32>(image.width);
  control.height = static_cast<png_uint_32>(image.height);
  control.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_BGR;
  control.flags = PNG_IMAGE_FLAG_FAST;  // speed before size, as in OpenCV
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(control), '\0');
  png_alloc_size_t size = file.size();
  const int written =
      png_image_write_to_memory(&control, file.data(), &size, 0, image.values.data(), 0, nullptr);
  const std::string reason = control.message;
  png_image_free(&control);
  if (!written) throw Error("cannot be encoded as PNG: ", reason);
  file.resize(size);
  return file;
}

}  // namespace millrace::inline data
