// Label maps of SSD: text files of a caffe.LabelMap, which give the classes of a data set numbers.
#ifndef MILLRACE_DATA_ANNOTATED_LABEL_MAP_H_
#define MILLRACE_DATA_ANNOTATED_LABEL_MAP_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace millrace::inline data {

// The number of each class, by its name.
using LabelMap = std::map<std::string, int32_t>;

// Throws Error naming `file` if the text is no label map, if it is empty, or if it gives a name
// twice. `unique`: also if it gives a number twice.
LabelMap ParseLabelMap(const std::string& text, const std::string& file, bool unique);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_ANNOTATED_LABEL_MAP_H_
