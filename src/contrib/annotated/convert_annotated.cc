#include "contrib/annotated/convert_annotated.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "contrib/annotated/annotation_file.h"
#include "data/images/convert_records.h"
#include "data/images/image_list.h"
#include "data/images/image_pairs.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {
namespace {

// Objects of a class are a group, in the order in which the classes occur.
void AddObjects(const std::vector<Object>& objects, caffe::AnnotatedDatum* datum) {
  auto& groups = *datum->mutable_annotation_group();
  for (const Object& each : objects) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& other) { return other.group_label() == each.label; });
    if (group == groups.end()) {
      datum->add_annotation_group()->set_group_label(each.label);
      group = groups.end() - 1;
    }
    caffe::Annotation* const annotation = group->add_annotation();
    annotation->set_instance_id(each.instance);
    caffe::NormalizedBBox* const box = annotation->mutable_bbox();
    box->set_xmin(each.box.xmin), box->set_ymin(each.box.ymin);
    box->set_xmax(each.box.xmax), box->set_ymax(each.box.ymax);
    box->set_difficult(each.difficult);
  }
}

class Converter {
 public:
  Converter(const std::string& root_folder, const ConvertAnnotatedOptions& options)
      : root_folder_(root_folder), options_(options) {
    if (!options.detection) return;
    try {
      format_ = ParseAnnotationFormat(options.label_type);
    } catch (const Error& error) {
      throw Error("--label_type: ", error.what());
    }
    if (options.label_map_file.empty()) {
      if (format_ == AnnotationFormat::kText) return;
      throw Error("--label_map_file: missing, expected a label map, which gives classes numbers");
    }
    labels_ = ParseLabelMap(ReadFile(options.label_map_file), options.label_map_file,
                            options.check_label);
  }

  ImageRecord WithLabel(const ListedImage& listed, ImageRecordMaker* maker) const {
    ImageRecord record = maker->Make(root_folder_ + listed.name, listed.label);
    caffe::AnnotatedDatum annotated;
    Finish(&annotated, &record);
    return record;
  }

  ImageRecord WithBoxes(const ImagePair& listed, ImageRecordMaker* maker) const {
    constexpr int32_t kNoLabel = -1;
    ImageRecord record = maker->Make(root_folder_ + listed.image, kNoLabel);
    caffe::AnnotatedDatum annotated;
    annotated.set_type(caffe::AnnotatedDatum::BBOX);
    const std::string file = root_folder_ + listed.label;
    if (!FileExists(file)) {
      LOG(WARNING) << file << ": does not exist: " << listed.image << " has no boxes";
    } else {
      AddObjects(Read(file, record), &annotated);
    }
    Finish(&annotated, &record);
    return record;
  }

 private:
  std::vector<Object> Read(const std::string& file, const ImageRecord& record) const {
    Annotations annotations;
    try {
      annotations = ReadAnnotations(ReadFile(file), file, format_, labels_, record.file_height,
                                    record.file_width);
    } catch (const UnknownClass& error) {
      throw ConversionError(error.what(), ", ", options_.label_map_file);
    }
    for (const std::string& each : annotations.oddities) LOG(WARNING) << each;
    return std::move(annotations.objects);
  }

  // Puts the Datum of `record` into `annotated`, and this into `record`.
  static void Finish(caffe::AnnotatedDatum* annotated, ImageRecord* record) {
    CHECK(annotated->mutable_datum()->ParseFromString(record->bytes));
    record->bytes = annotated->SerializeAsString();
  }

  const std::string& root_folder_;
  const ConvertAnnotatedOptions& options_;
  AnnotationFormat format_ = AnnotationFormat::kText;
  LabelMap labels_;
};

template <typename Listed>
std::vector<Listed> InOrder(const std::vector<Listed>& listed,
                            const ConvertImagesOptions& options) {
  std::vector<Listed> ordered;
  for (const size_t i : RecordOrder(listed.size(), options)) ordered.push_back(listed[i]);
  return ordered;
}

}  // namespace

ConvertImagesResult ConvertAnnotated(const std::string& root_folder, const std::string& list_file,
                                     const std::string& output,
                                     const ConvertAnnotatedOptions& options) {
  RecordOptions(options.images);  // errors in the options come first
  const Converter converter(root_folder, options);
  const std::string list = ReadFile(list_file);
  std::vector<std::string> names;
  if (options.detection) {
    const auto pairs = InOrder(ParseImagePairs(list, list_file), options.images);
    for (const ImagePair& each : pairs) names.push_back(each.image);
    const MakeRecord make = [&](size_t index, ImageRecordMaker* maker) {
      return converter.WithBoxes(pairs[index], maker);
    };
    return ConvertRecords(root_folder, list_file, output, names, make, options.images);
  }
  const auto images = InOrder(ParseImageList(list, list_file), options.images);
  for (const ListedImage& each : images) names.push_back(each.name);
  const MakeRecord make = [&](size_t index, ImageRecordMaker* maker) {
    return converter.WithLabel(images[index], maker);
  };
  return ConvertRecords(root_folder, list_file, output, names, make, options.images);
}

namespace {

const RegisterAnnotatedConverter convert_annotated(ConvertAnnotated);

}  // namespace
}  // namespace millrace::inline contrib
