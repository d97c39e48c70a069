#include "data/images/convert_images.h"

#include <vector>

#include "base/file.h"
#include "data/images/convert_records.h"
#include "data/images/image_list.h"

namespace millrace::inline data {

ConvertImagesResult ConvertImages(const std::string& root_folder, const std::string& list_file,
                                  const std::string& output, const ConvertImagesOptions& options) {
  RecordOptions(options);  // errors in the options come first
  const std::vector<ListedImage> listed = ParseImageList(ReadFile(list_file), list_file);
  const std::vector<size_t> order = RecordOrder(listed.size(), options);
  std::vector<std::string> names;
  for (const size_t i : order) names.push_back(listed[i].name);
  const MakeRecord make = [&](size_t index, ImageRecordMaker* maker) {
    const ListedImage& image = listed[order[index]];
    return maker->Make(root_folder + image.name, image.label);
  };
  return ConvertRecords(root_folder, list_file, output, names, make, options);
}

AnnotatedConverter& RegisteredAnnotatedConverter() {
  static AnnotatedConverter converter = nullptr;
  return converter;
}

}  // namespace millrace::inline data
