#include "data/images/convert_images.h"

#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/module.h"
#include "base/registration.h"
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

namespace {

AnnotatedConverter& RegisteredConverter() {
  static AnnotatedConverter converter = nullptr;
  return converter;
}

}  // namespace

RegisterAnnotatedConverter::RegisterAnnotatedConverter(AnnotatedConverter converter) {
  if (RegisteredConverter() != nullptr) ReportSecondRegistration("converter", "annotated");
  RegisteredConverter() = converter;
}

AnnotatedConverter FindAnnotatedConverter() {
  const std::string reason = LoadModule("contrib");
  if (RegisteredConverter() != nullptr) return RegisteredConverter();
  throw Error("the converter of images with boxes is in ", reason);
}

}  // namespace millrace::inline data
