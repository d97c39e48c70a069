// Annotation files of any bytes, in each format: they give finite boxes of classes of the label
// map, or one line that names the file. The first byte is the format.
#include "contrib/annotated/annotation_file.h"

#include <cmath>

#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  const std::string object =
      "<object><name>cat</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin>"
      "<xmax>30</xmax><ymax>40.5</ymax></bndbox><part><name>x</name></part></object>";
  return {"x<annotation><size><width>50</width><height>60</height></size>" + object + object +
              "</annotation>",
          "x<!DOCTYPE a [<!ENTITY b 'cat'>]><annotation><object><name>&b;</name></object>",
          "x<annotation/>",
          R"(j{"image":{"height":60,"width":50},"annotation":[{"category_id":1,"bbox":[1,2,3,4]},)"
          R"({"category_id":"cat","bbox":[1.5,2,3e0,-4],"iscrowd":1}]})",
          R"(j{"annotation":[]})",
          "t1 2 3 4 5\n\n-7 1.5 2e1 3 4\r\n",
          "t",
          "j[[[[[[",
          ""};
}

bool Target(const std::string& input) {
  const LabelMap labels = {{"cat", 3}, {"1", 4}};
  const char first = input.empty() ? 't' : input[0];
  const AnnotationFormat format = first == 'x'   ? AnnotationFormat::kXml
                                  : first == 'j' ? AnnotationFormat::kJson
                                                 : AnnotationFormat::kText;
  const std::string text = input.substr(input.empty() ? 0 : 1);
  try {
    const Annotations read = ReadAnnotations(text, "file", format, labels, 60, 50);
    for (const Object& each : read.objects) {
      const bool known = each.label == 3 || each.label == 4 || format == AnnotationFormat::kText;
      if (!known || each.instance < 0) return false;
      for (const float value : {each.box.xmin, each.box.ymin, each.box.xmax, each.box.ymax}) {
        if (!std::isfinite(value)) return false;
      }
    }
    for (const std::string& each : read.oddities) {
      if (each.find('\n') != std::string::npos) return false;
    }
    return true;
  } catch (const Error& error) {
    return IsOneLineNaming(error, {"file"});
  }
}

}  // namespace millrace::fuzz
