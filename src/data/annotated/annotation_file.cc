#include "data/annotated/annotation_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace millrace::inline data {
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

}  // namespace millrace::inline data
