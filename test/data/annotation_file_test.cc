#include "contrib/annotated/annotation_file.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace {
namespace {

const LabelMap kLabels = {{"cat", 3}, {"dog", 5}, {"18", 7}};

Annotations Read(const std::string& text, AnnotationFormat format, int height = 100,
                 int width = 200) {
  return ReadAnnotations(text, "file", format, kLabels, height, width);
}

void ExpectObject(const Object& object, int label, int instance, const Box& box, bool difficult) {
  EXPECT_EQ(object.label, label);
  EXPECT_EQ(object.instance, instance);
  EXPECT_FLOAT_EQ(object.box.xmin, box.xmin);
  EXPECT_FLOAT_EQ(object.box.ymin, box.ymin);
  EXPECT_FLOAT_EQ(object.box.xmax, box.xmax);
  EXPECT_FLOAT_EQ(object.box.ymax, box.ymax);
  EXPECT_EQ(object.difficult, difficult);
}

std::string Voc(const std::string& content) {
  return "<?xml version='1.0'?>\n<annotation>\n" + content + "</annotation>\n";
}

std::string VocObject(const std::string& name, const std::string& box,
                      const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more + "<bndbox>" + box + "</bndbox></object>\n";
}

std::string VocBox(const std::string& x0, const std::string& y0, const std::string& x1,
                   const std::string& y1) {
  // PASCAL VOC has several orders.
  return "<xmax>" + x1 + "</xmax><xmin>" + x0 + "</xmin><ymax>" + y1 + "</ymax><ymin> " + y0 +
         " </ymin>";
}

TEST(VocAnnotations, AreBoxesInSharesOfTheImage) {
  const Annotations read =
      Read(Voc("<filename>a&amp;b.jpg</filename><size><width>200</width><height>100</height>"
               "<depth>3</depth></size>" +
               VocObject("cat", VocBox("20", "10", "100", "50"), "<difficult>1</difficult>") +
               VocObject(" dog\n", VocBox("0.5", "0", "200", "100"),
                         "<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>") +
               VocObject("cat", VocBox("1", "2", "3", "4"), "<difficult>0</difficult>")),
           AnnotationFormat::kXml);
  ASSERT_EQ(read.objects.size(), 3u);
  ExpectObject(read.objects[0], 3, 0, {0.1f, 0.1f, 0.5f, 0.5f}, true);
  ExpectObject(read.objects[1], 5, 0, {0.0025f, 0, 1, 1}, false);
  ExpectObject(read.objects[2], 3, 1, {0.005f, 0.02f, 0.015f, 0.04f}, false);
  EXPECT_TRUE(read.oddities.empty());
}

TEST(VocAnnotations, NeedNoSizeAndNoObjects) {
  EXPECT_TRUE(Read(Voc(""), AnnotationFormat::kXml).objects.empty());
  const std::string object = VocObject("cat", VocBox("20", "10", "100", "50"));
  for (const std::string size : {"", "<size><width>0</width><height>0</height></size>"}) {
    const Annotations read = Read(Voc(size + object), AnnotationFormat::kXml);
    ExpectObject(read.objects.at(0), 3, 0, {0.1f, 0.1f, 0.5f, 0.5f}, false);
  }
}

TEST(VocAnnotations, GiveTheSizeThatCounts) {
  const Annotations read = Read(Voc("<size><width>400</width><height>50</height></size>" +
                                    VocObject("cat", VocBox("20", "10", "100", "50"))),
                                AnnotationFormat::kXml);
  ExpectObject(read.objects.at(0), 3, 0, {0.05f, 0.2f, 0.25f, 1}, false);
  ASSERT_EQ(read.oddities.size(), 1u);
  EXPECT_EQ(read.oddities[0], "file: gives the image 50 x 400 pixels, but it has 100 x 200");
}

TEST(VocAnnotations, ReportBoxesThatLeaveTheImage) {
  const Annotations read = Read(Voc(VocObject("cat", VocBox("-1", "10", "100", "50")) +
                                    VocObject("cat", VocBox("20", "30", "10", "50")) +
                                    VocObject("cat", VocBox("20", "30", "201", "50"))),
                                AnnotationFormat::kXml);
  EXPECT_EQ(read.objects.size(), 3u);
  ASSERT_EQ(read.oddities.size(), 3u);
  EXPECT_EQ(read.oddities[0], "file: the box (-1, 10, 100, 50) leaves the image of 100 x 200");
  EXPECT_EQ(read.oddities[1], "file: the box (20, 30, 10, 50) is empty");
}

TEST(VocAnnotations, AreRefusedInOneLine) {
  const auto error = [](const std::string& text) {
    return test::ErrorOf([&] { Read(text, AnnotationFormat::kXml); });
  };
  const std::string box = VocBox("1", "2", "3", "4");
  EXPECT_CONTAINS(error(""), "file:1: is no well-formed XML: no element found");
  EXPECT_CONTAINS(error("<annotation><object></annotation>"), "file:1: is no well-formed XML: ");
  EXPECT_CONTAINS(error("<other/>"), "file: has no element <annotation>");
  EXPECT_CONTAINS(error(Voc("<object><bndbox>" + box + "</bndbox></object>")),
                  "file:3: an object has no name");
  EXPECT_CONTAINS(error(Voc("<object><name>cat</name></object>")),
                  "file:3: an object has no bndbox");
  EXPECT_CONTAINS(error(Voc("\n" + VocObject("cat", "<xmin>1</xmin>"))),
                  "file:4: an object has no bndbox");
  EXPECT_CONTAINS(error(Voc(VocObject("cat", VocBox("x", "1", "2", "3")))),
                  "'x': expected a number");
  EXPECT_CONTAINS(error(Voc(VocObject("cat", VocBox("nan", "1", "2", "3")))),
                  "'nan': expected a number");
  EXPECT_CONTAINS(error(Voc(VocObject("cow", box))),
                  "file: has an object of class 'cow', which is not in the label map");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "<a>";
  EXPECT_CONTAINS(error("<annotation>" + deep), "is nested too deeply");
}

TEST(VocAnnotations, OfAClassThatTheMapLacksAreAnErrorOfTheirOwn) {
  EXPECT_THROW(Read(Voc(VocObject("cow", VocBox("1", "2", "3", "4"))), AnnotationFormat::kXml),
               UnknownClass);
}

TEST(CocoAnnotations, AreBoxesOfCategories) {
  const Annotations read = Read(
      R"({"image": {"height": 100, "width": 200, "file_name": "x"}, "annotation": [
          {"category_id": 18, "bbox": [20, 10.0, 80, 40], "iscrowd": 0, "segmentation": [[1, 2]]},
          {"category_id": "cat", "bbox": [0, 0, 200, 100], "iscrowd": 1}]})",
      AnnotationFormat::kJson);
  ASSERT_EQ(read.objects.size(), 2u);
  ExpectObject(read.objects[0], 7, 0, {0.1f, 0.1f, 0.5f, 0.5f}, false);
  ExpectObject(read.objects[1], 3, 0, {0, 0, 1, 1}, true);
  EXPECT_TRUE(Read(R"({"annotation": []})", AnnotationFormat::kJson).objects.empty());
}

TEST(CocoAnnotations, AreRefusedInOneLine) {
  const auto error = [](const std::string& text) {
    return test::ErrorOf([&] { Read(text, AnnotationFormat::kJson); });
  };
  EXPECT_CONTAINS(error(""), "file: is no JSON object: ");
  EXPECT_CONTAINS(error("{"), "file: is no JSON object: ");
  EXPECT_CONTAINS(error("[1]"), "file: is no JSON object: ");
  EXPECT_CONTAINS(error(std::string(100000, '[')), "file: is no JSON object: ");
  EXPECT_CONTAINS(error("{}"), "file: has no list 'annotation'");
  EXPECT_CONTAINS(error(R"({"annotation": [{"bbox": [1, 2, 3, 4]}]})"),
                  "file: annotation 0: has no category_id");
  EXPECT_CONTAINS(error(R"({"annotation": [{"category_id": 1.5, "bbox": [1, 2, 3, 4]}]})"),
                  "file: annotation 0: has no category_id");
  EXPECT_CONTAINS(error(R"({"annotation": [{"category_id": 18, "bbox": [1, 2, 3]}]})"),
                  "file: annotation 0: has no bbox of four numbers");
  EXPECT_CONTAINS(error(R"({"annotation": [{"category_id": 18, "bbox": [1, 2, 3, "4"]}]})"),
                  "file: annotation 0: has no bbox of four numbers");
  EXPECT_CONTAINS(error(R"({"annotation": [{"category_id": 19, "bbox": [1, 2, 3, 4]}]})"),
                  "class '19', which is not in the label map");
}

TEST(TextAnnotations, AreLabelsAndBoxes) {
  const Annotations read =
      Read("9 20 10 100 50\r\n\n  8 0.5 0 200 100  \n9 1 2 3 4", AnnotationFormat::kText);
  ASSERT_EQ(read.objects.size(), 3u);
  ExpectObject(read.objects[0], 9, 0, {0.1f, 0.1f, 0.5f, 0.5f}, false);
  ExpectObject(read.objects[1], 8, 0, {0.0025f, 0, 1, 1}, false);
  ExpectObject(read.objects[2], 9, 1, {0.005f, 0.02f, 0.015f, 0.04f}, false);
  EXPECT_TRUE(Read("", AnnotationFormat::kText).objects.empty());
}

TEST(TextAnnotations, AreRefusedInOneLine) {
  for (const char* text : {"cat 1 2 3 4", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 5x", "1.5 2 3 4 5",
                           "1 nan 3 4 5", "99999999999 1 2 3 4"}) {
    const std::string all = std::string("1 1 1 2 2\n") + text;
    EXPECT_CONTAINS(test::ErrorOf([&] { Read(all, AnnotationFormat::kText); }),
                    std::string("file:2: '") + text + "': expected a label, xmin");
  }
}

TEST(AnnotationFormats, HaveNames) {
  EXPECT_EQ(ParseAnnotationFormat("xml"), AnnotationFormat::kXml);
  EXPECT_EQ(ParseAnnotationFormat("json"), AnnotationFormat::kJson);
  EXPECT_EQ(ParseAnnotationFormat("txt"), AnnotationFormat::kText);
  EXPECT_CONTAINS(test::ErrorOf([] { ParseAnnotationFormat("yaml"); }), "'yaml' is no format");
}

TEST(LabelMaps, GiveNamesNumbers) {
  const LabelMap map = ParseLabelMap(
      "item { name: 'none_of_the_above' label: 0 display_name: 'background' }\n"
      "item { name: 'cat' label: 3 } item { name: 'kitten' label: 3 }",
      "map", false);
  EXPECT_EQ(map, (LabelMap{{"none_of_the_above", 0}, {"cat", 3}, {"kitten", 3}}));
  const auto error = [](const std::string& text) {
    return test::ErrorOf([&] { ParseLabelMap(text, "map", true); });
  };
  EXPECT_CONTAINS(error("item { name: 'a' label: 3 } item { name: 'b' label: 3 }"),
                  "map: gives the label 3 twice");
  EXPECT_CONTAINS(error("item { name: 'a' label: 1 } item { name: 'a' label: 2 }"),
                  "map: gives the name 'a' twice");
  EXPECT_CONTAINS(error("item { nam: 'a' }"), "map");
  EXPECT_CONTAINS(error("# nothing\n"), "map");
}

}  // namespace
}  // namespace millrace
