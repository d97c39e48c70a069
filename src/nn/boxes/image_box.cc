#include "nn/boxes/image_box.h"

#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace millrace::inline nn {
namespace {

using caffe::ResizeParameter;

Box Scale(const Box& box, float height, float width) {
  return {box.xmin * width, box.ymin * height, box.xmax * width, box.ymax * height};
}

// A box given in shares of the whole in shares of its part `source`; unchanged if it lies beside
// it.
Box WithinPart(const Box& source, const Box& box) {
  if (box.xmin >= source.xmax || box.xmax <= source.xmin || box.ymin >= source.ymax ||
      box.ymax <= source.ymin) {
    return box;
  }
  const float width = source.xmax - source.xmin, height = source.ymax - source.ymin;
  return {(box.xmin - source.xmin) / width, (box.ymin - source.ymin) / height,
          (box.xmax - source.xmin) / width, (box.ymax - source.ymin) / height};
}

// The part of the padded image that the image fills.
Box FilledPart(const NamedImage& image, const ResizeParameter& resize) {
  const auto height = static_cast<float>(resize.height()),
             width = static_cast<float>(resize.width());
  const float aspect = static_cast<float>(image.width) / static_cast<float>(image.height);
  if (aspect > width / height) {
    const float border = (height - width / aspect) / 2 / height;
    return {0, border, 1, 1 - border};
  }
  const float border = (width - height * aspect) / 2 / width;
  return {border, 0, 1 - border, 1};
}

}  // namespace

std::vector<NamedImage> ReadNamedImages(const std::string& path, const std::string& field) {
  std::string text;
  try {
    text = ReadFile(path);
  } catch (const Error& error) {
    throw FieldError(field, error.what());
  }
  std::istringstream lines(text);
  std::vector<NamedImage> images;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    NamedImage image;
    if (!(words >> image.name)) continue;
    if (!(words >> image.height >> image.width) || image.height < 1 || image.width < 1) {
      throw FieldError(field, path, ":", number, ": expected \"name height width\"");
    }
    images.push_back(image);
  }
  if (images.empty()) throw FieldError(field, path, ": has no lines \"name height width\"");
  return images;
}

void CheckResize(const ResizeParameter& resize, const std::string& field) {
  if (resize.height() > 0 && resize.width() > 0) return;
  throw FieldError(field, "height ", resize.height(), " and width ", resize.width(),
                   " given, expected both to be more than 0");
}

PixelBox InPixels(const Box& box, const NamedImage& image, const ResizeParameter* resize) {
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  Box shares = box;
  if (resize != nullptr && resize->resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD) {
    shares = WithinPart(FilledPart(image, *resize), box);
  }
  if (resize != nullptr && resize->resize_mode() == ResizeParameter::FIT_SMALL_SIZE &&
      resize->height_scale() > 0 && resize->width_scale() > 0) {
    const Box scaled = Scale(box, static_cast<float>(resize->height_scale()),
                             static_cast<float>(resize->width_scale()));
    const Box clipped = Clip(scaled, width, height);
    return {clipped, Area(clipped)};  // as in SSD: here without the last row and column
  }
  const Box pixels = Scale(Clip(shares), height, width);
  return {pixels, width > 1 || height > 1 ? PixelArea(pixels) : Area(pixels)};
}

}  // namespace millrace::inline nn
