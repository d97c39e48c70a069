#include "contrib/detection/detection_files.h"

#include <glog/logging.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "proto/parse.h"

namespace millrace::inline contrib {
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

int64_t WholeNumber(float value, const char* table, int64_t row, const char* column) {
  if (!(value > -1e9f && value < 1e9f)) {
    throw Error(table, " row ", row, ": ", column, " ", value, " is not a whole number");
  }
  return static_cast<int64_t>(value);
}

void Detection::AppendTo(std::vector<float>* values) const {
  values->push_back(static_cast<float>(image));
  values->push_back(static_cast<float>(label));
  values->push_back(score);
  const auto edges = ValuesOf(box);
  values->insert(values->end(), edges.begin(), edges.end());
}

DetectionsOfImages ReadDetections(const float* values, int64_t rows, int background) {
  DetectionsOfImages images;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const row = values + Detection::kColumns * i;
    const int64_t image = WholeNumber(row[0], "detection", i, "image");
    const int64_t label = WholeNumber(row[1], "detection", i, "label");
    if (image == -1 || label == -1) continue;
    if (label == background) {
      throw Error("detection row ", i, ": label ", label,
                  " is that of the background (background_label_id)");
    }
    images[image][static_cast<int>(label)].push_back(
        {image, static_cast<int>(label), row[2], BoxOf(row + 3)});
  }
  return images;
}

namespace {

constexpr const char* kParam = "detection_output_param.save_output_param";

std::string FieldOf(const char* name) { return StrCat(kParam, ".", name); }

double Rounded(float value) { return std::round(double{value} * 100) / 100; }

// A number as it is, any other text in quotation marks.
std::string JsonOf(const std::string& text) {
  static const std::regex number(R"(-?(0|[1-9][0-9]*)(\.[0-9]+)?)");
  if (std::regex_match(text, number)) return text;
  std::ostringstream out;
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out << "\\u00"
          << "0123456789abcdef"[c >> 4] << "0123456789abcdef"[c & 15];
    } else {
      out << c;
    }
  }
  out << '"';
  return out.str();
}

void Save(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

}  // namespace

std::unique_ptr<DetectionFiles> DetectionFiles::Open(const caffe::DetectionOutputParameter& param) {
  const caffe::SaveOutputParameter& save = param.save_output_param();
  if (save.output_directory().empty()) return nullptr;
  if (save.label_map_file().empty() || save.name_size_file().empty()) {
    LOG(WARNING) << kParam
                 << ": no results are saved: label_map_file and name_size_file are needed";
    return nullptr;
  }
  return std::unique_ptr<DetectionFiles>(new DetectionFiles(param));
}

DetectionFiles::DetectionFiles(const caffe::DetectionOutputParameter& param)
    : param_(param.save_output_param()) {
  const std::string& format = param_.output_format();
  if (format != "VOC" && format != "COCO" && format != "ILSVRC") {
    throw FieldError(FieldOf("output_format"), "\"", format,
                     "\" given, expected VOC, COCO or ILSVRC");
  }
  if (param_.has_resize_param()) CheckResize(param_.resize_param(), FieldOf("resize_param"));
  ReadLabels(param_.label_map_file());
  names_.erase(param.background_label_id());
  images_ = ReadNamedImages(param_.name_size_file(), FieldOf("name_size_file"));
  count_ = param_.has_num_test_image() ? param_.num_test_image() : images_.size();
  if (count_ < 1 || count_ > images_.size()) {
    throw FieldError(FieldOf("num_test_image"), count_, " given, expected 1 to ", images_.size(),
                     ", the images of ", param_.name_size_file());
  }
  try {
    MakeDirectories(param_.output_directory());
  } catch (const Error& error) {
    throw FieldError(FieldOf("output_directory"), error.what());
  }
}

void DetectionFiles::ReadLabels(const std::string& path) {
  caffe::LabelMap map;
  try {
    LoadText(path, &map, nullptr);
  } catch (const Error& error) {
    throw FieldError(FieldOf("label_map_file"), error.what());
  }
  for (const caffe::LabelMapItem& item : map.item()) {
    if (names_.emplace(item.label(), item.name()).second) continue;
    throw FieldError(FieldOf("label_map_file"), path, ": label ", item.label(), " is there twice");
  }
}

void DetectionFiles::Add(std::span<const Detection> image) {
  const NamedImage& named = images_[next_];
  for (const Detection& each : image) {
    if (!names_.count(each.label)) {
      throw Error(param_.label_map_file(), ": has no label ", each.label, ", which was detected");
    }
    const PixelBox box =
        InPixels(each.box, named, param_.has_resize_param() ? &param_.resize_param() : nullptr);
    rows_.push_back({&named, each.label, each.score, box.box});
  }
  if (++next_ < count_) return;
  Write();
  next_ = 0;
  rows_.clear();
}

std::string DetectionFiles::PathOf(const std::string& rest) const {
  return StrCat(param_.output_directory(), "/", param_.output_name_prefix(), rest);
}

void DetectionFiles::Write() const {
  if (param_.output_format() == "COCO") return WriteCoco(PathOf(".json"));
  if (param_.output_format() == "ILSVRC") return WriteLines(PathOf(".txt"), true, 0);
  for (const auto& [label, name] : names_) WriteLines(PathOf(name + ".txt"), false, label);
}

void DetectionFiles::WriteLines(const std::string& path, bool with_label, int label) const {
  std::ostringstream out;
  for (const Row& row : rows_) {
    if (!with_label && row.label != label) continue;
    out << row.image->name << ' ';
    if (with_label) out << row.label << ' ';
    // Whole pixels: the corner, and the corner plus whole width and height.
    const Box& box = row.pixels;
    const int x = static_cast<int>(Rounded(box.xmin)), y = static_cast<int>(Rounded(box.ymin));
    out << row.score << ' ' << x << ' ' << y << ' '
        << x + static_cast<int>(Rounded(box.xmax - box.xmin)) << ' '
        << y + static_cast<int>(Rounded(box.ymax - box.ymin)) << '\n';
  }
  Save(path, out.str());
}

void DetectionFiles::WriteCoco(const std::string& path) const {
  std::ostringstream out;
  out.precision(9);
  out << "[";
  const char* separator = "\n";
  for (const Row& row : rows_) {
    const Box& box = row.pixels;
    out << separator << "{\"image_id\": " << JsonOf(row.image->name)
        << ", \"category_id\": " << JsonOf(names_.at(row.label)) << ", \"bbox\": ["
        << Rounded(box.xmin) << ", " << Rounded(box.ymin) << ", " << Rounded(box.xmax - box.xmin)
        << ", " << Rounded(box.ymax - box.ymin) << "], \"score\": " << row.score << "}";
    separator = ",\n";
  }
  out << "\n]\n";
  Save(path, out.str());
}

}  // namespace millrace::inline contrib
