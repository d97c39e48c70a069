#include "contrib/segmentation/image_data_layers.h"

#include <set>

#include "data/images/image_pairs.h"
#include "data/images/resize.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;

constexpr int kHeight = 6, kWidth = 5, kPlane = kHeight * kWidth;

// The label of pixel (y, x) of pair `number`, another one for each pixel.
int LabelAt(int number, int y, int x) { return number * 10 + y * kWidth + x; }

// Pairs 0 to 5: PNGs of 6 x 5, in colour and grey.
class DenseImageDataLayerTest : public testing::Test {
 protected:
  DenseImageDataLayerTest() {
    std::string list;
    for (int i = 0; i < 6; ++i) {
      const std::string name = std::to_string(i) + ".png";
      test::WriteFile(folder_ / ("image" + name),
                      test::EncodePng(test::SmoothPixels(3, kHeight, kWidth, i), {}));
      Image labels{1, kHeight, kWidth, {}};
      test::PngKind grey;
      grey.color_type = 0;
      for (int k = 0; k < kPlane; ++k) {
        labels.values.push_back(static_cast<uint8_t>(LabelAt(i, k / kWidth, k % kWidth)));
      }
      test::WriteFile(folder_ / ("label" + name), test::EncodePng(labels, grey));
      list += "image" + name + "  label" + name + "\n";
    }
    test::WriteFile(folder_ / "list.txt", list);
  }

  caffe::LayerParameter Param(const std::string& more, const std::string& rest = "",
                              const std::string& list = "list.txt") const {
    return test::LayerOf(
        "type: 'DenseImageData' top: 'data' top: 'label' dense_image_data_param {"
        " source: '" +
        folder_ / list + "' root_folder: '" + folder_ / "' batch_size: 4 " + more + " } " + rest);
  }

  // The value of channel c (blue first) at pixel (y, x) of image `number`.
  static int PixelAt(int number, int c, int y, int x) {
    return test::SmoothPixels(3, kHeight, kWidth, number).values[(y * kWidth + x) * 3 + 2 - c];
  }

  test::TempDir folder_;
};

TEST_F(DenseImageDataLayerTest, GivesImagesAndTheGreyValuesOfLabelImages) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("", "transform_param { scale: 0.5 mean_value: 10 }"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 3, kHeight, kWidth}));
  EXPECT_EQ(layer.top(1).shape(), Shape({4, 1, kHeight, kWidth}));
  EXPECT_EQ(layer.layer().batch_size(), 4);
  for (int pass = 0; pass < 3; ++pass) {
    layer.Forward();
    for (int n = 0; n < 4; ++n) {
      const int number = (pass * 4 + n) % 6;
      for (int k = 0; k < kPlane; ++k) {
        const int y = k / kWidth, x = k % kWidth;
        ASSERT_EQ(layer.Values(1)[n * kPlane + k], static_cast<float>(LabelAt(number, y, x)));
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(layer.Values(0)[(n * 3 + c) * kPlane + k],
                    0.5f * static_cast<float>(PixelAt(number, c, y, x) - 10));
        }
      }
    }
  }
}

TEST_F(DenseImageDataLayerTest, CropsAndMirrorsBothImagesAlike) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("mirror: true crop_height: 3 crop_width: 2"), &service, caffe::TEST);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 3, 3, 2}));
  EXPECT_EQ(layer.top(1).shape(), Shape({4, 1, 3, 2}));
  std::set<int> corners, directions;
  for (int item = 0; item < 200; item += 4) {
    layer.Forward();
    for (int n = 0; n < 4; ++n) {
      const int number = (item + n) % 6;
      const std::vector<float> labels = layer.Values(1), values = layer.Values(0);
      const int direction = static_cast<int>(labels[n * 6 + 1] - labels[n * 6]);
      ASSERT_TRUE(direction == 1 || direction == -1);
      const int corner = static_cast<int>(labels[n * 6]) - number * 10;
      corners.insert(corner);
      directions.insert(direction);
      for (int k = 0; k < 6; ++k) {
        const int y = corner / kWidth + k / 2, x = corner % kWidth + direction * (k % 2);
        ASSERT_EQ(labels[n * 6 + k], static_cast<float>(LabelAt(number, y, x)));
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(values[(n * 3 + c) * 6 + k], static_cast<float>(PixelAt(number, c, y, x)));
        }
      }
    }
  }
  EXPECT_EQ(directions.size(), 2u);
  EXPECT_EQ(corners.size(), 4u * 5u);  // of crops, and of mirrored ones
}

TEST_F(DenseImageDataLayerTest, ResizesLabelsToTheirNearestPixels) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("new_height: 9 new_width: 3 is_color: false"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 1, 9, 3}));
  layer.Forward();
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 3; ++x) {
      const auto expected = static_cast<float>(LabelAt(0, y * kHeight / 9, x * kWidth / 3));
      EXPECT_EQ(layer.Values(1)[y * 3 + x], expected) << y << " " << x;
    }
  }
}

// Labels for nets whose output is smaller than their input, as the encoder of ENet.
TEST_F(DenseImageDataLayerTest, DividesTheSizeOfLabels) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("new_height: 9 new_width: 6 label_divide_factor: 3"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 3, 9, 6}));
  EXPECT_EQ(layer.top(1).shape(), Shape({4, 1, 3, 2}));
  layer.Forward();
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 2; ++x) {
      const auto expected = static_cast<float>(LabelAt(0, y * kHeight / 3, x * kWidth / 2));
      EXPECT_EQ(layer.Values(1)[y * 2 + x], expected) << y << " " << x;
    }
  }
  const std::string at = "dense_image_data_param.label_divide_factor: is ";
  EXPECT_CONTAINS(test::SetUpError(Param("label_divide_factor: 2")),
                  at + "2, expected a new_height");
  EXPECT_CONTAINS(test::SetUpError(Param("label_divide_factor: 0")), at + "0, expected 1 to");
  EXPECT_CONTAINS(test::SetUpError(Param("label_divide_factor: 2 new_height: 8 new_width: 8 "
                                         "crop_height: 2 crop_width: 2")),
                  at + "2, expected a new_width of at least that, and no crop");
}

TEST_F(DenseImageDataLayerTest, ABatchOfOnePairHasItsSize) {
  Image labels{1, 2, 3, {1, 2, 3, 4, 5, 6}};
  test::PngKind grey;
  grey.color_type = 0;
  test::WriteFile(folder_ / "image1.png", test::EncodePng(test::SmoothPixels(3, 2, 3, 1), {}));
  test::WriteFile(folder_ / "label1.png", test::EncodePng(labels, grey));
  caffe::LayerParameter param = Param("");
  param.mutable_dense_image_data_param()->set_batch_size(1);
  DataService service{DataOptions()};
  LayerInstance layer(param, &service);
  for (int pass = 0; pass < 8; ++pass) {
    layer.Reshape();
    layer.Forward();
    const bool small = pass % 6 == 1;
    ASSERT_EQ(layer.top(0).shape(), small ? Shape({1, 3, 2, 3}) : Shape({1, 3, kHeight, kWidth}));
    ASSERT_EQ(layer.top(1).shape(), small ? Shape({1, 1, 2, 3}) : Shape({1, 1, kHeight, kWidth}));
    if (small) {
      EXPECT_EQ(layer.Values(1), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    } else {
      EXPECT_EQ(layer.Values(1)[6], static_cast<float>(LabelAt(pass % 6, 1, 1)));
    }
  }
  DataService batches{DataOptions()};
  LayerInstance four(Param(""), &batches);
  EXPECT_CONTAINS(test::ErrorOf([&] { four.Forward(); }), "like the first record");
}

TEST_F(DenseImageDataLayerTest, ShufflesPairsAndIsAFunctionOfTheSeed) {
  std::vector<std::vector<float>> runs;
  for (const uint64_t seed : {1, 1, 2}) {
    DataOptions options;
    options.seed = seed;
    DataService service{options};
    LayerInstance layer(Param("shuffle: true mirror: true crop_height: 2 crop_width: 2"), &service);
    std::vector<float>& run = runs.emplace_back();
    for (int pass = 0; pass < 9; ++pass) {
      for (const float value : layer.Next(1)) run.push_back(value);
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST_F(DenseImageDataLayerTest, GivesTheSameOnAnotherDevice) {
  const caffe::LayerParameter param = Param("mirror: true crop_height: 3 crop_width: 2");
  DataService service{DataOptions()}, other{DataOptions()};
  test::FakeDevice device({.mode = test::FakeMode::kThread});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  LayerInstance host(param, &service), remote(param, &other, caffe::TRAIN, *queue);
  for (int pass = 0; pass < 5; ++pass) {
    host.Forward();
    remote.Forward();
    queue->Synchronize();
    EXPECT_EQ(remote.Values(0), host.Values(0));
    EXPECT_EQ(remote.Values(1), host.Values(1));
  }
}

TEST_F(DenseImageDataLayerTest, NamesAPairThatCannotBeUsed) {
  const auto error = [&](const std::string& line) {
    test::WriteFile(folder_ / "one.txt", "image0.png label0.png\n" + line + "\n");
    DataService service{DataOptions()};
    LayerInstance layer(Param("", "", "one.txt"), &service);
    return test::ErrorOf([&] { layer.Forward(); });
  };
  test::WriteFile(folder_ / "bad.png", "no image");
  test::WriteFile(folder_ / "empty.png", "");
  test::WriteFile(folder_ / "small.png", test::EncodePng(test::SmoothPixels(3, 4, 5, 1), {}));
  EXPECT_CONTAINS(error("bad.png label1.png"), "record 'bad.png': ");
  EXPECT_CONTAINS(error("image1.png bad.png"), "record 'image1.png': its label image ");
  EXPECT_CONTAINS(error("image1.png empty.png"), "empty.png: is empty");
  EXPECT_CONTAINS(error("image1.png missing.png"), "missing.png");
  EXPECT_CONTAINS(error("image1.png small.png"), "has a label image of 4 x 5, expected 6 x 5");
  EXPECT_CONTAINS(error("small.png small.png"), "expected 3 x 6 x 5 like the first record");
}

TEST_F(DenseImageDataLayerTest, RefusesBadSettings) {
  const auto error = [&](const std::string& more, const std::string& rest = "") {
    return test::SetUpError(Param(more, rest));
  };
  EXPECT_EQ(error(""), "");
  EXPECT_CONTAINS(error("new_height: 3"), "dense_image_data_param.new_width: is 0 or missing");
  EXPECT_CONTAINS(error("crop_width: 3"), "dense_image_data_param.crop_height: is 0 or missing");
  EXPECT_CONTAINS(error("crop_height: 7 crop_width: 2"), "more than the images of 6 x 5");
  EXPECT_CONTAINS(error("new_height: 99999 new_width: 1"), "expected at most 16384");
  EXPECT_CONTAINS(error("mean_file: 'mean'"), "dense_image_data_param.mean_file: given, expected");
  EXPECT_CONTAINS(error("", "transform_param { mirror: true }"), "transform_param.mirror: true");
  EXPECT_CONTAINS(error("", "transform_param { crop_size: 3 }"),
                  "transform_param.crop_size: or crop_h given");
  EXPECT_CONTAINS(error("", "transform_param { noise_param {} }"),
                  "transform_param.noise_param: given, expected none");
  EXPECT_CONTAINS(test::SetUpError(Param("", "", "missing")), "dense_image_data_param.source: ");
  EXPECT_CONTAINS(test::SetUpError(test::LayerOf(
                      "type: 'DenseImageData' top: 'a' top: 'b' dense_image_data_param {"
                      " source: 'x' }")),
                  "dense_image_data_param.batch_size: is missing");
}

TEST(ImagePairList, HasTwoNamesPerLine) {
  const auto pairs = ParseImagePairs("a.png b.png\r\n\n \t\n  c\t d ", "list");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].image, "a.png");
  EXPECT_EQ(pairs[0].label, "b.png");
  EXPECT_EQ(pairs[1].image, "c");
  EXPECT_EQ(pairs[1].label, "d");
  const auto error = [](const char* text) {
    return test::ErrorOf([&] { ParseImagePairs(text, "list"); });
  };
  EXPECT_CONTAINS(error("a b\nc\n"), "list:2: 'c': expected the names");
  EXPECT_CONTAINS(error("a b c"), "list:1: ");
  EXPECT_EQ(error(" \n"), "list: lists no images");
}

}  // namespace
}  // namespace millrace
