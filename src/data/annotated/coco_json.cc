// Annotations in JSON, read with protobuf.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "data/annotated/annotation_file.h"

namespace millrace::inline data {
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

}  // namespace millrace::inline data
