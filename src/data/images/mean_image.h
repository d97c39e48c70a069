// Mean images (`mean_file`): BlobProtos of the shape C x H x W or 1 x C x H x W.
#ifndef MILLRACE_DATA_IMAGES_MEAN_IMAGE_H_
#define MILLRACE_DATA_IMAGES_MEAN_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::inline data {

struct MeanImage {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> values;  // (C, H, W)
};

// Throws Error naming `path` if it is not the file of an image.
MeanImage LoadMeanImage(const std::string& path);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_MEAN_IMAGE_H_
