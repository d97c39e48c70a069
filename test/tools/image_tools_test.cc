// The program with images: converts them, averages them, and trains on databases and files of them.
#include <filesystem>

#include "test/support/encode_images.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// Two classes: dark and bright images of 8 x 8, 20 each, and one file that is no image.
class ImageTools : public testing::Test {
 protected:
  ImageTools() {
    std::string list;
    for (int i = 0; i < 40; ++i) {
      const std::string name = StrCat("image ", i, ".png");
      Image image{3, 8, 8, std::vector<uint8_t>(192, static_cast<uint8_t>(i % 2 * 180 + i))};
      WriteFile(folder_ / name, EncodePng(image, {}));
      list += StrCat(name, " ", i % 2, "\n");
    }
    WriteFile(folder_ / "list", list);
    WriteFile(folder_ / "bad.png", "no image");
    WriteFile(folder_ / "with bad", "bad.png 0\n" + list);
  }
  CommandResult Convert(const std::string& list, std::vector<std::string> flags,
                        const std::string& database) {
    flags.insert(flags.begin(), "convert_imageset");
    for (const std::string& each : {folder_ / "", folder_ / list, folder_ / database}) {
      flags.push_back(each);
    }
    return Millrace(flags);
  }
  // Trains a net with one layer of that data; returns the run.
  CommandResult Train(const std::string& data_layer) {
    WriteFile(folder_ / "net.prototxt",
              "layer { name: 'data' top: 'data' top: 'label' " + data_layer +
                  " transform_param { scale: 0.00390625 mean_value: 110 } }\n"
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
                  "  inner_product_param { num_output: 2 } }\n"
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }\n"
                  "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label'\n"
                  "  top: 'accuracy' include { phase: TEST } }\n");
    WriteFile(folder_ / "solver.prototxt",
              "net: '" +
                  folder_ /
                      "net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 60 "
                      "test_iter: 4 test_interval: 60 snapshot_prefix: '" +
                  folder_ /
                      "run' "
                      "snapshot_after_train: false\n");
    return Millrace({"train", "--solver=" + folder_ / "solver.prototxt", "--cpu=2"});
  }

  TempDir folder_;
};

TEST_F(ImageTools, ConvertSkipsOrRefusesWhatIsNoImage) {
  const CommandResult result = Convert("with bad", {"--threads=2", "--shuffle"}, "db");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "skipped: " + folder_ / "bad.png: ");
  EXPECT_CONTAINS(result.errors, "of 40 images; skipped 1");
  ExpectOneLine(Convert("with bad", {"--strict"}, "strict"), {folder_ / "bad.png: "});
  EXPECT_FALSE(FileExists(folder_ / "strict"));
  ExpectOneLine(Convert("list", {"--backend=rocksdb"}, "x"), {"--backend=rocksdb"});
  ExpectOneLine(Convert("list", {"--resize_width=4"}, "x"), {"--resize_width=4"});
  ExpectOneLine(Convert("list", {"--threads=-1"}, "x"), {"--threads=-1"});
}

TEST_F(ImageTools, ConvertsImagesWithBoxes) {
  WriteFile(folder_ / "boxes.xml",
            "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin>"
            "<xmax>4</xmax><ymax>8</ymax></bndbox></object></annotation>");
  WriteFile(folder_ / "map", "item { name: 'cat' label: 3 }");
  std::filesystem::copy_file(folder_ / "image 0.png", folder_ / "a.png");
  WriteFile(folder_ / "pairs", "a.png boxes.xml\na.png missing.xml\n");
  const auto convert = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "convert_annoset");
    for (const std::string& each : {folder_ / "", folder_ / "pairs", folder_ / "boxes"}) {
      flags.push_back(each);
    }
    return Millrace(flags);
  };
  const std::string map = "--label_map_file=" + folder_ / "map";
  ExpectOneLine(convert({"--anno_type=segmentation"}), {"--anno_type: 'segmentation'"});
  ExpectOneLine(convert({"--anno_type=detection"}), {"--label_map_file: missing"});
  ExpectOneLine(convert({"--anno_type=detection", map, "--label_type=yaml"}), {"--label_type: "});
  const CommandResult result = convert({"--anno_type=detection", map, "--encoded"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "of 2 images; skipped 0");
  EXPECT_CONTAINS(result.errors, "missing.xml: does not exist");
  WriteFile(folder_ / "net.prototxt",
            "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param {"
            " source: '" +
                folder_ /
                    "boxes' batch_size: 2 } transform_param { resize_param { height: 4"
                    " width: 4 } } }\n"
                    "layer { name: 'boxes' type: 'Silence' bottom: 'label' }\n"
                    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
                    " inner_product_param { num_output: 2 } }\n"
                    "layer { name: 'zero' type: 'DummyData' top: 'zero' dummy_data_param {"
                    " shape { dim: 2 dim: 2 } } }\n"
                    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'zero'"
                    " top: 'loss' }\n");
  WriteFile(folder_ / "solver.prototxt",
            "net: '" + folder_ /
                           "net.prototxt' base_lr: 0.000001 lr_policy: 'fixed' max_iter: 4 "
                           "snapshot_after_train: false\n");
  const CommandResult run =
      Millrace({"train", "--solver=" + folder_ / "solver.prototxt", "--cpu=2"});
  EXPECT_EQ(run.status, 0) << run.errors;
}

TEST_F(ImageTools, MeanIsLoggedByChannelAndWritten) {
  ASSERT_EQ(Convert("list", {"--backend=leveldb", "--gray"}, "db").status, 0);
  const CommandResult result = Millrace({"compute_image_mean", folder_ / "db", folder_ / "mean"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "mean_value channel [0]: 109.5");
  EXPECT_TRUE(FileExists(folder_ / "mean"));
  EXPECT_CONTAINS(Millrace({"compute_image_mean", folder_ / "db"}).errors, "channel [0]: 109.5");
}

TEST_F(ImageTools, TrainsOnImageFilesAndOnDatabasesOfThem) {
  ASSERT_EQ(Convert("list", {}, "lmdb").status, 0);
  ASSERT_EQ(Convert("list", {"--backend=leveldb", "--encode_type=jpg"}, "leveldb").status, 0);
  const std::string layers[] = {
      "type: 'ImageData' image_data_param { batch_size: 10 shuffle: true source: '" +
          folder_ / "list' root_folder: '" + folder_ / "' }",
      "type: 'Data' data_param { batch_size: 10 source: '" + folder_ / "lmdb' backend: LMDB }",
      "type: 'Data' data_param { batch_size: 10 source: '" + folder_ / "leveldb' }"};
  for (const std::string& layer : layers) {
    const CommandResult result = Train(layer);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.errors, "accuracy = 1");
  }
}

}  // namespace
}  // namespace millrace::test
