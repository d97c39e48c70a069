#include "contrib/annotated/convert_annotated.h"

#include <filesystem>

#include "base/files/file.h"
#include "data/datum_view.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// Images of 3 x 8 x 10 with annotations: a.png with two cats and a dog, b.png with none, c.png
// without a file.
class ConvertAnnotatedTest : public testing::Test {
 protected:
  ConvertAnnotatedTest() {
    std::filesystem::create_directory(folder_ / "in");
    for (const std::string name : {"a", "b", "c"}) {
      Write(name + ".png", test::EncodePng(test::SmoothPixels(3, 8, 10, name[0]), {}));
    }
    Write("a.xml", "<annotation>" + Voc("cat", 1, 2, 3, 4) + Voc("dog", 0, 0, 10, 8) +
                       Voc("cat", 5, 4, 10, 8) + "</annotation>");
    Write("b.xml", "<annotation/>");
    Write("map", "item { name: 'cat' label: 3 } item { name: 'dog' label: 7 }");
    List("a.png a.xml\nb.png b.xml\nc.png c.xml\n");
    options_.detection = true;
    options_.label_map_file = folder_ / "in/map";
  }

  static std::string Voc(const std::string& name, int x0, int y0, int x1, int y1) {
    return StrCat("<object><name>", name, "</name><bndbox><xmin>", x0, "</xmin><ymin>", y0,
                  "</ymin><xmax>", x1, "</xmax><ymax>", y1, "</ymax></bndbox></object>");
  }
  void Write(const std::string& name, const std::string& bytes) {
    test::WriteFile(folder_ / "in/" + name, bytes);
  }
  void List(const std::string& text) { test::WriteFile(folder_ / "list", text); }
  ConvertImagesResult Convert(const std::string& to = "db") {
    return ConvertAnnotated(folder_ / "in/", folder_ / "list", folder_ / to, options_);
  }
  std::string ConvertError() {
    const std::string error = test::ErrorOf([&] { Convert("bad"); });
    EXPECT_FALSE(FileExists(folder_ / "bad"));
    return error;
  }
  std::vector<caffe::AnnotatedDatum> Records(const std::string& name = "db") {
    const auto database = OpenDatabase(folder_ / name);
    const auto reader = database->MakeReader(false);
    std::vector<caffe::AnnotatedDatum> records(database->size());
    for (uint64_t i = 0; i < database->size(); ++i) {
      EXPECT_TRUE(records[i].ParseFromString(std::string(reader->At(i).value)));
    }
    return records;
  }

  test::TempDir folder_;
  ConvertAnnotatedOptions options_;
};

TEST_F(ConvertAnnotatedTest, StoresObjectsInGroupsOfTheirClass) {
  const ConvertImagesResult result = Convert();
  EXPECT_EQ(result.converted, 3u);
  EXPECT_EQ(result.skipped, 0u);
  const std::vector<caffe::AnnotatedDatum> records = Records();
  ASSERT_EQ(records.size(), 3u);
  for (const caffe::AnnotatedDatum& each : records) {
    EXPECT_TRUE(each.has_type());
    EXPECT_EQ(each.datum().height(), 8);
    EXPECT_EQ(each.datum().width(), 10);
    EXPECT_EQ(each.datum().data().size(), 240u);
    EXPECT_EQ(each.datum().label(), -1);
  }
  const caffe::AnnotatedDatum& first = records[0];
  ASSERT_EQ(first.annotation_group_size(), 2);
  EXPECT_EQ(first.annotation_group(0).group_label(), 3);
  ASSERT_EQ(first.annotation_group(0).annotation_size(), 2);
  EXPECT_EQ(first.annotation_group(0).annotation(1).instance_id(), 1);
  const caffe::NormalizedBBox& box = first.annotation_group(0).annotation(0).bbox();
  EXPECT_FLOAT_EQ(box.xmin(), 0.1f);
  EXPECT_FLOAT_EQ(box.ymin(), 0.25f);
  EXPECT_FLOAT_EQ(box.xmax(), 0.3f);
  EXPECT_FLOAT_EQ(box.ymax(), 0.5f);
  EXPECT_EQ(first.annotation_group(1).group_label(), 7);
  EXPECT_EQ(first.annotation_group(1).annotation_size(), 1);
  EXPECT_EQ(records[1].annotation_group_size(), 0);
  EXPECT_EQ(records[2].annotation_group_size(), 0);
}

TEST_F(ConvertAnnotatedTest, MakesWhatAnAnnotatedDataLayerReads) {
  options_.images.encoded = true;
  Convert();
  DataService service{DataOptions()};
  test::LayerInstance layer(
      test::LayerOf("type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
                    folder_ / "db' batch_size: 3 }"),
      &service);
  const std::vector<float> rows = layer.Next(1);
  EXPECT_EQ(layer.top(0).shape(), Shape({3, 3, 8, 10}));
  ASSERT_EQ(rows.size(), 24u);
  const std::vector<float> second = {0, 3, 1, 0.5f, 0.5f, 1, 1, 0};
  EXPECT_EQ(std::vector<float>(rows.begin() + 8, rows.begin() + 16), second);
}

TEST_F(ConvertAnnotatedTest, ReadsTheOtherFormats) {
  Write("a.txt", "4 1 2 3 4\n");
  Write("a.json", R"({"annotation": [{"category_id": "dog", "bbox": [1, 2, 2, 2]}]})");
  for (const auto& [type, label] : {std::pair<std::string, int>("txt", 4), {"json", 7}}) {
    List("a.png a." + type + "\n");
    options_.label_type = type;
    Convert(type);
    const caffe::AnnotatedDatum record = Records(type).at(0);
    ASSERT_EQ(record.annotation_group_size(), 1);
    EXPECT_EQ(record.annotation_group(0).group_label(), label);
    EXPECT_FLOAT_EQ(record.annotation_group(0).annotation(0).bbox().xmax(), 0.3f);
  }
}

TEST_F(ConvertAnnotatedTest, TakesBoxesFromTheFileWhenItResizesTheImage) {
  options_.images.resize_height = options_.images.resize_width = 4;
  Convert("small");
  EXPECT_EQ(Records("small")[0].datum().width(), 4);
  EXPECT_FLOAT_EQ(Records("small")[0].annotation_group(0).annotation(0).bbox().xmax(), 0.3f);
  options_.images.resize_height = options_.images.resize_width = 0;
  options_.images.min_dim = 16;
  Convert("larger");
  EXPECT_EQ(Records("larger")[0].datum().height(), 16);
  EXPECT_EQ(Records("larger")[0].datum().width(), 20);
  options_.images.max_dim = 5;
  Convert("shrunk");
  EXPECT_EQ(Records("shrunk")[0].datum().height(), 4);
  EXPECT_EQ(Records("shrunk")[0].datum().width(), 5);
}

TEST_F(ConvertAnnotatedTest, StoresLabelsForClassification) {
  options_.detection = false;
  List("a.png 4\nc.png 6\n");
  Convert();
  const std::vector<caffe::AnnotatedDatum> records = Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_FALSE(records[0].has_type());
  EXPECT_EQ(records[1].datum().label(), 6);
}

TEST_F(ConvertAnnotatedTest, SkipsOrRefusesWhatCannotBeUsed) {
  Write("bad.xml", "<annotation><object/></annotation>");
  List("missing.png a.xml\na.png bad.xml\nb.png b.xml\n");
  EXPECT_EQ(Convert().skipped, 2u);
  options_.images.strict = true;
  EXPECT_CONTAINS(ConvertError(), "missing.png");
  List("a.png bad.xml\n");
  EXPECT_CONTAINS(ConvertError(), "bad.xml:1: an object has no name");
}

TEST_F(ConvertAnnotatedTest, NeverSkipsAClassThatTheLabelMapLacks) {
  Write("cow.xml", "<annotation>" + Voc("cow", 1, 2, 3, 4) + "</annotation>");
  List("a.png a.xml\nb.png cow.xml\n");
  EXPECT_CONTAINS(ConvertError(), "has an object of class 'cow', which is not in the label map");
  EXPECT_CONTAINS(ConvertError(), folder_ / "in/map");
}

TEST_F(ConvertAnnotatedTest, RefusesBadOptions) {
  options_.label_type = "yaml";
  EXPECT_CONTAINS(ConvertError(), "--label_type: 'yaml'");
  options_.label_type = "xml";
  options_.label_map_file = "";
  EXPECT_CONTAINS(ConvertError(), "--label_map_file: missing");
  options_.label_map_file = folder_ / "no map";
  EXPECT_CONTAINS(ConvertError(), folder_ / "no map");
  options_.images.min_dim = -1;
  EXPECT_CONTAINS(ConvertError(), "--min_dim=-1");
  options_.images.min_dim = 0;
  options_.label_map_file = folder_ / "in/map";
  List("a.png\n");
  EXPECT_CONTAINS(ConvertError(), "list:1: 'a.png': expected the names");
}

}  // namespace
}  // namespace millrace
