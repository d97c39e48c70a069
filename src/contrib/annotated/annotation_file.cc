#include "contrib/annotated/annotation_file.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline contrib {

LabelMap ParseLabelMap(const std::string& text, const std::string& file, bool unique) {
  caffe::LabelMap items;
  ParseText(text, file, &items, nullptr);
  LabelMap map;
  std::set<int32_t> labels;
  for (const caffe::LabelMapItem& item : items.item()) {
    if (!map.emplace(item.name(), item.label()).second) {
      throw Error(file, ": gives the name '", item.name(), "' twice");
    }
    if (!labels.insert(item.label()).second && unique) {
      throw Error(file, ": gives the label ", item.label(), " twice");
    }
  }
  if (map.empty()) throw Error(file, ": holds no items, expected item { name: ... label: ... }");
  return map;
}

namespace {

ParsedAnnotation Parse(std::string_view text, const std::string& file, AnnotationFormat format) {
  switch (format) {
    case AnnotationFormat::kXml:
      return ParseVoc(text, file);
    case AnnotationFormat::kJson:
      return ParseCoco(text, file);
    case AnnotationFormat::kText:
      break;
  }
  return ParseBoxLines(text, file);
}

// Reads a number at the front of `line`, after white space. Returns whether there is one.
template <typename Number>
bool TakeNumber(std::string_view* line, Number* number) {
  line->remove_prefix(std::min(line->find_first_not_of(" \t\r"), line->size()));
  const auto result = std::from_chars(line->data(), line->data() + line->size(), *number);
  if (result.ec != std::errc()) return false;
  line->remove_prefix(result.ptr - line->data());
  return line->empty() || std::string_view(" \t\r").find(line->front()) != std::string_view::npos;
}

}  // namespace

AnnotationFormat ParseAnnotationFormat(const std::string& name) {
  if (name == "xml") return AnnotationFormat::kXml;
  if (name == "json") return AnnotationFormat::kJson;
  if (name == "txt") return AnnotationFormat::kText;
  throw Error("'", name, "' is no format of annotations, expected xml, json or txt");
}

ParsedAnnotation ParseBoxLines(std::string_view text, const std::string& file) {
  ParsedAnnotation parsed;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    NamedObject object;
    std::string_view rest = line;
    bool good = TakeNumber(&rest, &object.label);
    for (float* each : {&object.xmin, &object.ymin, &object.xmax, &object.ymax}) {
      good = good && TakeNumber(&rest, each) && std::isfinite(*each);
    }
    if (!good || rest.find_first_not_of(" \t\r") != std::string_view::npos) {
      throw Error(file, ":", number, ": '", line.substr(0, 200),
                  "': expected a label, xmin, ymin, xmax and ymax");
    }
    parsed.objects.push_back(object);
  }
  return parsed;
}

Annotations ReadAnnotations(std::string_view text, const std::string& file, AnnotationFormat format,
                            const LabelMap& labels, int height, int width) {
  const ParsedAnnotation parsed = Parse(text, file, format);
  Annotations result;
  if (parsed.height > 0 && parsed.width > 0 && (parsed.height != height || parsed.width != width)) {
    result.oddities.push_back(StrCat(file, ": gives the image ", parsed.height, " x ", parsed.width,
                                     " pixels, but it has ", height, " x ", width));
    height = parsed.height, width = parsed.width;
  }
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  std::map<int32_t, int32_t> instances;
  for (const NamedObject& each : parsed.objects) {
    int32_t label = each.label;
    if (format != AnnotationFormat::kText) {
      const auto found = labels.find(each.name);
      if (found == labels.end()) {
        throw UnknownClass(file, ": has an object of class '", each.name,
                           "', which is not in the label map");
      }
      label = found->second;
    }
    const bool inside = each.xmin >= 0 && each.ymin >= 0 && each.xmax <= w && each.ymax <= h;
    if (!inside || each.xmin > each.xmax || each.ymin > each.ymax) {
      const std::string what =
          inside ? "is empty" : StrCat("leaves the image of ", height, " x ", width);
      result.oddities.push_back(StrCat(file, ": the box (", each.xmin, ", ", each.ymin, ", ",
                                       each.xmax, ", ", each.ymax, ") ", what));
    }
    result.objects.push_back({label,
                              instances[label]++,
                              {each.xmin / w, each.ymin / h, each.xmax / w, each.ymax / h},
                              each.difficult});
  }
  return result;
}

// Annotations in JSON, read with protobuf.

namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

const Value* Find(const Struct& object, const char* key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? nullptr : &found->second;
}

// The side of an image; 0 if it is not there or none.
int SideOf(const Struct& image, const char* key) {
  const Value* const value = Find(image, key);
  constexpr double kMax = 1 << 24;
  const double side = value == nullptr ? 0 : value->number_value();
  return side >= 1 && side <= kMax ? static_cast<int>(side) : 0;
}

// The name of a category: its number in decimal, or a text.
std::string NameOf(const Value* category) {
  if (category == nullptr) return "";
  if (category->kind_case() == Value::kStringValue) return category->string_value();
  const double number = category->number_value();
  constexpr double kMax = 1e15;
  if (category->kind_case() != Value::kNumberValue || !(std::abs(number) < kMax) ||
      number != std::floor(number)) {
    return "";
  }
  return std::to_string(static_cast<int64_t>(number));
}

NamedObject ObjectOf(const Value& value, const std::string& file, int index) {
  const auto fail = [&](const char* what) -> Error {
    return Error(file, ": annotation ", index, ": has no ", what);
  };
  const Struct& given = value.struct_value();
  NamedObject object;
  object.name = NameOf(Find(given, "category_id"));
  if (object.name.empty()) throw fail("category_id");
  const Value* const box = Find(given, "bbox");
  if (box == nullptr || box->list_value().values_size() != 4) {
    throw fail("bbox of four numbers, x, y, width and height");
  }
  double numbers[4];
  for (int i = 0; i < 4; ++i) {
    const Value& number = box->list_value().values(i);
    numbers[i] = number.number_value();
    if (number.kind_case() != Value::kNumberValue || !(std::abs(numbers[i]) < 1e9)) {
      throw fail("bbox of four numbers, x, y, width and height");
    }
  }
  object.xmin = static_cast<float>(numbers[0]);
  object.ymin = static_cast<float>(numbers[1]);
  object.xmax = static_cast<float>(numbers[0] + numbers[2]);
  object.ymax = static_cast<float>(numbers[1] + numbers[3]);
  const Value* const crowd = Find(given, "iscrowd");
  object.difficult = crowd != nullptr && (crowd->number_value() != 0 || crowd->bool_value());
  return object;
}

}  // namespace

ParsedAnnotation ParseCoco(std::string_view text, const std::string& file) {
  Struct root;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &root);
  if (!status.ok()) throw Error(file, ": is no JSON object: ", OneLine(status.ToString()));
  ParsedAnnotation parsed;
  if (const Value* const image = Find(root, "image")) {
    parsed.height = SideOf(image->struct_value(), "height");
    parsed.width = SideOf(image->struct_value(), "width");
  }
  const Value* const list = Find(root, "annotation");
  if (list == nullptr || list->kind_case() != Value::kListValue) {
    throw Error(file, ": has no list 'annotation'");
  }
  for (int i = 0; i < list->list_value().values_size(); ++i) {
    parsed.objects.push_back(ObjectOf(list->list_value().values(i), file, i));
  }
  return parsed;
}

}  // namespace millrace::inline contrib
