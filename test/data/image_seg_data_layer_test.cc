#include "contrib/segmentation/image_data_layers.h"

#include <map>
#include <set>

#include "data/images/image_pairs.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;

constexpr int kImages = 4;

// Image `number` has 6 x 5 pixels, but those with odd numbers 4 x 7.
int HeightOf(int number) { return number % 2 == 0 ? 6 : 4; }
int WidthOf(int number) { return number % 2 == 0 ? 5 : 7; }
// Another one for each pixel of an image.
int LabelAt(int number, int y, int x) { return number * 50 + y * WidthOf(number) + x; }
// The value of channel c (blue first).
int PixelAt(int number, int c, int y, int x) {
  return test::SmoothPixels(3, HeightOf(number), WidthOf(number), number)
      .values[(y * WidthOf(number) + x) * 3 + 2 - c];
}

class ImageSegDataLayerTest : public testing::Test {
 protected:
  ImageSegDataLayerTest() {
    test::PngKind grey;
    grey.color_type = 0;
    for (int i = 0; i < kImages; ++i) {
      const int height = HeightOf(i), width = WidthOf(i);
      Image labels{1, height, width, {}};
      for (int k = 0; k < height * width; ++k) {
        labels.values.push_back(static_cast<uint8_t>(LabelAt(i, k / width, k % width)));
      }
      const std::string name = std::to_string(i) + ".png";
      test::WriteFile(folder_ / ("i" + name),
                      test::EncodePng(test::SmoothPixels(3, height, width, i), {}));
      test::WriteFile(folder_ / ("l" + name), test::EncodePng(labels, grey));
      Write("all.txt", "i" + name + " l" + name + "\n");
      Write("numbers.txt", "i" + name + " " + std::to_string(7 * i) + "\n");
      Write("names.txt", "i" + name + "\n");
      if (i % 2 == 0) Write("even.txt", "i" + name + " l" + name + "\n");
    }
  }

  // Appends a line to a list.
  void Write(const std::string& list, const std::string& line) {
    test::WriteFile(folder_ / list, lists_[list] += line);
  }

  caffe::LayerParameter Param(const std::string& list, const std::string& more,
                              const std::string& transform = "") const {
    return test::LayerOf(
        "type: 'ImageSegData' top: 'data' top: 'label' top: 'dim'"
        " image_data_param { source: '" +
        folder_ / list + "' root_folder: '" + folder_ / "' " + more + " } transform_param { " +
        transform + " }");
  }

  test::TempDir folder_;
  std::map<std::string, std::string> lists_;
};

TEST_F(ImageSegDataLayerTest, GivesImagesAndTheGreyValuesOfLabelImages) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("even.txt", "batch_size: 2", "scale: 0.5 mean_value: 10"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 3, 6, 5}));
  EXPECT_EQ(layer.top(1).shape(), Shape({2, 1, 6, 5}));
  EXPECT_EQ(layer.top(2).shape(), Shape({2, 1, 1, 2}));
  EXPECT_EQ(layer.layer().batch_size(), 2);
  for (int pass = 0; pass < 2; ++pass) {
    layer.Forward();
    EXPECT_EQ(layer.Values(2), (std::vector<float>{6, 5, 6, 5}));
    for (int n = 0; n < 2; ++n) {
      for (int k = 0; k < 30; ++k) {
        const int y = k / 5, x = k % 5;
        ASSERT_EQ(layer.Values(1)[n * 30 + k], static_cast<float>(LabelAt(2 * n, y, x)));
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(layer.Values(0)[(n * 3 + c) * 30 + k],
                    0.5f * static_cast<float>(PixelAt(2 * n, c, y, x) - 10));
        }
      }
    }
  }
}

// A crop of 5 x 6 is lower than some images and wider than them, and the other way round of others.
TEST_F(ImageSegDataLayerTest, PadsCropsAndMirrors) {
  constexpr int kHeight = 5, kWidth = 6, kPlane = kHeight * kWidth;
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    DataService service{DataOptions()};
    LayerInstance layer(Param("all.txt", "batch_size: 4 ignore_label: 255",
                              "crop_h: 5 crop_w: 6 mirror: true scale: 2 mean_value: 1"
                              " mean_value: 2 mean_value: 3"),
                        &service, phase);
    ASSERT_EQ(layer.top(0).shape(), Shape({4, 3, kHeight, kWidth}));
    std::set<std::pair<int, int>> corners[kImages];
    std::set<bool> mirrored;
    for (int pass = 0; pass < 60; ++pass) {
      layer.Forward();
      const std::vector<float> values = layer.Values(0), labels = layer.Values(1);
      EXPECT_EQ(layer.Values(2), (std::vector<float>{5, 5, 4, 6, 5, 5, 4, 6}));
      for (int n = 0; n < kImages; ++n) {
        const float* const own = &labels[n * kPlane];
        // Labels of a row rise from left to right, 255 beyond the image.
        const bool mirror = own[1] < own[0] || own[0] == 255;
        mirrored.insert(mirror);
        const auto first = static_cast<int>(own[mirror ? kWidth - 1 : 0]) - n * 50;
        const int top = first / WidthOf(n), left = first % WidthOf(n);
        corners[n].insert({top, left});
        for (int k = 0; k < kPlane; ++k) {
          const int y = top + k / kWidth;
          const int x = left + (mirror ? kWidth - 1 - k % kWidth : k % kWidth);
          const bool inside = y < HeightOf(n) && x < WidthOf(n);
          ASSERT_EQ(own[k], inside ? static_cast<float>(LabelAt(n, y, x)) : 255) << n << " " << k;
          for (int c = 0; c < 3; ++c) {
            const auto value = static_cast<float>(inside ? 2 * (PixelAt(n, c, y, x) - c - 1) : 0);
            ASSERT_EQ(values[(n * 3 + c) * kPlane + k], value) << n << " " << c << " " << k;
          }
        }
      }
    }
    EXPECT_EQ(mirrored.size(), 2u);
    using Corners = std::set<std::pair<int, int>>;
    const bool random = phase == caffe::TRAIN;
    EXPECT_EQ(corners[0], (random ? Corners{{0, 0}, {1, 0}} : Corners{{0, 0}}));
    EXPECT_EQ(corners[1], (random ? Corners{{0, 0}, {0, 1}} : Corners{{0, 0}}));
  }
}

TEST_F(ImageSegDataLayerTest, CropsTheMiddleInTests) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("all.txt", "batch_size: 4", "crop_size: 2"), &service, caffe::TEST);
  layer.Forward();
  for (int n = 0; n < kImages; ++n) {
    const int y = (HeightOf(n) - 2) / 2, x = (WidthOf(n) - 2) / 2;
    EXPECT_EQ(layer.Values(1)[n * 4], static_cast<float>(LabelAt(n, y, x)));
    EXPECT_EQ(layer.Values(1)[n * 4 + 3], static_cast<float>(LabelAt(n, y + 1, x + 1)));
  }
}

TEST_F(ImageSegDataLayerTest, ResizesLabelsToTheirNearestPixels) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("all.txt", "batch_size: 2 new_height: 9 new_width: 3 is_color: false"),
                      &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 1, 9, 3}));
  layer.Forward();
  EXPECT_EQ(layer.Values(2), (std::vector<float>{9, 3, 9, 3}));
  for (int n = 0; n < 2; ++n) {
    for (int k = 0; k < 27; ++k) {
      const int y = k / 3 * HeightOf(n) / 9, x = k % 3 * WidthOf(n) / 3;
      EXPECT_EQ(layer.Values(1)[n * 27 + k], static_cast<float>(LabelAt(n, y, x))) << k;
    }
  }
}

TEST_F(ImageSegDataLayerTest, GivesAnImageOneLabelOrNone) {
  const std::string size = "batch_size: 3 new_height: 2 new_width: 2 ";
  DataService service{DataOptions()};
  LayerInstance numbers(Param("numbers.txt", size + "label_type: IMAGE"), &service);
  EXPECT_EQ(numbers.Next(1), (std::vector<float>{0, 0, 0, 0, 7, 7, 7, 7, 14, 14, 14, 14}));
  for (const char* list : {"names.txt", "all.txt"}) {
    DataService other{DataOptions()};
    LayerInstance none(Param(list, size + "label_type: NONE ignore_label: 9"), &other);
    EXPECT_EQ(none.Next(1), std::vector<float>(12, 9));
  }
}

TEST_F(ImageSegDataLayerTest, ABatchOfOneImageHasItsSize) {
  caffe::LayerParameter param = Param("all.txt", "batch_size: 1");
  param.mutable_top()->RemoveLast();  // the sizes are optional
  DataService service{DataOptions()};
  LayerInstance layer(param, &service);
  for (int pass = 0; pass < 6; ++pass) {
    const int n = pass % kImages;
    layer.Reshape();
    layer.Forward();
    ASSERT_EQ(layer.top(0).shape(), Shape({1, 3, HeightOf(n), WidthOf(n)}));
    ASSERT_EQ(layer.top(1).shape(), Shape({1, 1, HeightOf(n), WidthOf(n)}));
    EXPECT_EQ(layer.Values(1)[8], static_cast<float>(LabelAt(n, 8 / WidthOf(n), 8 % WidthOf(n))));
  }
  DataService batches{DataOptions()};
  LayerInstance four(Param("all.txt", "batch_size: 4"), &batches);
  EXPECT_CONTAINS(test::ErrorOf([&] { four.Forward(); }),
                  "record 'i1.png': is 4 x 7, expected 6 x 5 like the first image");
}

TEST_F(ImageSegDataLayerTest, GivesTheSameOnAnotherDevice) {
  const caffe::LayerParameter param =
      Param("all.txt", "batch_size: 3 shuffle: true", "mirror: true crop_size: 3");
  DataService service{DataOptions()}, other{DataOptions()};
  test::FakeDevice device({.mode = test::FakeMode::kThread});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  LayerInstance host(param, &service), remote(param, &other, caffe::TRAIN, *queue);
  for (int pass = 0; pass < 5; ++pass) {
    host.Forward();
    remote.Forward();
    queue->Synchronize();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(remote.Values(i), host.Values(i));
  }
}

TEST_F(ImageSegDataLayerTest, RefusesBadSettings) {
  const auto error = [&](const std::string& more, const std::string& transform = "",
                         const std::string& list = "all.txt") {
    return test::SetUpError(Param(list, "batch_size: 2 " + more, transform));
  };
  EXPECT_EQ(error(""), "");
  EXPECT_CONTAINS(error("new_height: 3"), "image_data_param.new_width: is 0 or missing");
  EXPECT_CONTAINS(error("new_height: 99999 new_width: 1"), "expected at most 16384");
  EXPECT_CONTAINS(error("ignore_label: 256"), "ignore_label: is 256, expected 0 to 255");
  EXPECT_CONTAINS(error("", "mean_file: 'mean'"), "mean_file: given, expected mean_value");
  EXPECT_CONTAINS(error("", "crop_h: 3"), "transform_param.crop_w: is 0 or missing");
  EXPECT_CONTAINS(error("", "crop_size: 3 crop_h: 3 crop_w: 3"), "together with crop_h");
  EXPECT_CONTAINS(error("", "crop_size: 99999"), "crop_size: is 99999, expected at most 16384");
  EXPECT_CONTAINS(error("", "mean_value: 1 mean_value: 2"), "expected once or once for each of 3");
  EXPECT_CONTAINS(error("", "noise_param {}"), "noise_param: given, expected none");
  EXPECT_CONTAINS(error("", "", "missing"), "image_data_param.source: ");
  EXPECT_CONTAINS(error("", "", "names.txt"),
                  "names.txt:1: 'i0.png': expected the names of an image and of its label image");
  EXPECT_CONTAINS(error("label_type: IMAGE"),
                  "'i0.png l0.png': expected the name of an image and its label, 0 to 255");
}

TEST(ImagePairList, HasNumbersOrNoLabels) {
  const auto numbers = ParseImagePairs("a 0\nb 255\n", "list", PairLabels::kNumber);
  EXPECT_EQ(numbers[1].label, "255");
  for (const char* text : {"a 256", "a -1", "a 1x", "a", "a 1 2"}) {
    EXPECT_CONTAINS(
        test::ErrorOf([&] { ParseImagePairs(text, "list", PairLabels::kNumber); }),
        std::string("list:1: '") + text + "': expected the name of an image and its label");
  }
  const auto names = ParseImagePairs("a\nb c\n", "list", PairLabels::kNone);
  EXPECT_EQ(names[1].image, "b");
  EXPECT_EQ(names[1].label, "");
  EXPECT_CONTAINS(test::ErrorOf([] { ParseImagePairs("a b c", "list", PairLabels::kNone); }),
                  "at most one word more");
}

}  // namespace
}  // namespace millrace
