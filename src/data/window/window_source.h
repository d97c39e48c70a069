// The windows of a window file as records: encoded Datums of the images that hold them, with the
// window's class as label and its x1, y1, x2, y2 as float_data.
#ifndef MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_
#define MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_

#include <memory>
#include <utility>

#include "millrace/data_source.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Opens the window file of a WindowData layer: the background windows, and those of objects. With
// cache_images, both together keep the bytes of each image that was used. Reads no images. Throws
// FieldError if the file cannot be read, or if one of the two would be empty.
std::pair<std::shared_ptr<DataSource>, std::shared_ptr<DataSource>> OpenWindows(
    const caffe::WindowDataParameter& param);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_WINDOW_WINDOW_SOURCE_H_
