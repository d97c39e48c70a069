#include "data/opencv/decode.h"

#include <climits>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>

using millrace::OpenCvColor;
using millrace::OpenCvPlace;
using millrace::OpenCvResult;

namespace {

int FlagsOf(OpenCvColor color) {
  if (color == OpenCvColor::kOwn) return cv::IMREAD_UNCHANGED;
  return color == OpenCvColor::kColor ? cv::IMREAD_COLOR : cv::IMREAD_GRAYSCALE;
}

// No threads and no log lines of OpenCV's own: images are decoded by several threads as it is, and
// the caller reports errors.
bool Prepare() {
  cv::setNumThreads(0);
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  return true;
}

}  // namespace

extern "C" OpenCvResult millrace_opencv_decode(const char* file, size_t size, OpenCvColor color,
                                               OpenCvPlace place, void* user) {
  static const bool prepared = Prepare();
  if (!prepared || size == 0 || size > INT_MAX) return OpenCvResult::kUnreadable;
  cv::Mat image;
  try {
    const cv::Mat bytes(1, static_cast<int>(size), CV_8UC1, const_cast<char*>(file));
    image = cv::imdecode(bytes, FlagsOf(color));
  } catch (const std::exception&) {  // of images that are too large for it
    return OpenCvResult::kUnreadable;
  }
  if (image.empty() || image.dims != 2) return OpenCvResult::kUnreadable;
  if (image.depth() != CV_8U) return OpenCvResult::kDeep;
  uint8_t* out = place(user, image.channels(), image.rows, image.cols);
  const size_t row_bytes = image.cols * image.elemSize();
  for (int y = 0; y < image.rows; ++y) memcpy(out + y * row_bytes, image.ptr(y), row_bytes);
  return OpenCvResult::kRead;
}
