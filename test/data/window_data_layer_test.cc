#include "nn/layers/data/data_layers.h"

#include <set>

#include "proto/parse.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"

namespace millrace {
namespace {

using test::LayerInstance;

constexpr int kHeight = 12, kWidth = 14;

// Two images, with one window of an object (classes 1 and 2) and one of background in each. The
// windows have the size of the crop, 4, so that they are not resized.
class WindowDataLayerTest : public testing::Test {
 protected:
  WindowDataLayerTest() {
    for (int i = 0; i < 2; ++i) {
      test::WriteFile(folder_ / std::to_string(i), test::EncodePng(Pixels(i), {}));
    }
    test::WriteFile(folder_ / "windows",
                    "# 0\n0\n3\n12\n14\n2\n1 0.9 1 2 4 5\n3 0.1 6 7 9 10\n"
                    "# 1\n1\n3\n12\n14\n2\n2 0.8 3 4 6 7\n3 0.2 0 0 3 3\n");
  }
  static Image Pixels(int i) { return test::SmoothPixels(3, kHeight, kWidth, i); }
  // Value c of pixel (y, x) of an image, in the order blue, green, red.
  static float PixelAt(int image, int c, int y, int x) {
    return Pixels(image).values[(y * kWidth + x) * 3 + 2 - c];
  }

  caffe::LayerParameter Param(const std::string& more, const std::string& transform = "") const {
    return test::LayerOf(
        "type: 'WindowData' top: 'data' top: 'label' window_data_param { source: '" +
        folder_ / "windows' root_folder: '" + folder_ / "' batch_size: 8 " + more +
        " } transform_param { crop_size: 4 " + transform + " }");
  }

  test::TempDir folder_;
};

TEST_F(WindowDataLayerTest, DrawsBackgroundFirstThenObjects) {
  DataOptions options;
  options.seed = test::Seed();
  DataService service(options);
  LayerInstance layer(Param("fg_fraction: 0.4"), &service);  // 3 of 8
  EXPECT_EQ(layer.top(0).shape(), Shape({8, 3, 4, 4}));
  EXPECT_EQ(layer.top(1).shape(), Shape({8}));
  std::multiset<float> objects;
  std::set<float> background;
  for (int pass = 0; pass < 100; ++pass) {
    layer.Forward();
    const std::vector<float> labels = layer.Values(1), values = layer.Values(0);
    for (int n = 0; n < 8; ++n) {
      if (n < 5) {
        ASSERT_EQ(labels[n], 0);
        background.insert(values[n * 48]);
      } else {
        ASSERT_GT(labels[n], 0);
        objects.insert(labels[n]);
      }
    }
  }
  EXPECT_EQ(background.size(), 2u);
  // 300 draws of 2: 150 of each are expected, with standard deviation 8.7.
  EXPECT_NEAR(static_cast<double>(objects.count(1)), 150, 80);
  EXPECT_EQ(objects.count(1) + objects.count(2), 300u);
}

TEST_F(WindowDataLayerTest, GivesThePixelsOfTheWindowLessTheMeanTimesItsOwnScale) {
  for (const bool cached : {false, true}) {
    DataService service{DataOptions()};
    LayerInstance layer(Param(cached ? "scale: 0.5 cache_images: true" : "scale: 0.5",
                              "scale: 3 mean_value: 1 mean_value: 2 mean_value: 3"),
                        &service);
    layer.Forward();
    const std::vector<float> labels = layer.Values(1), values = layer.Values(0);
    for (int n = 6; n < 8; ++n) {
      const int image = labels[n] == 1 ? 0 : 1;
      const int x1 = image == 0 ? 1 : 3, y1 = image == 0 ? 2 : 4;
      for (int i = 0; i < 48; ++i) {
        const int c = i / 16, y = i / 4 % 4, x = i % 4;
        ASSERT_EQ(values[n * 48 + i],
                  0.5f * (PixelAt(image, c, y1 + y, x1 + x) - static_cast<float>(c + 1)));
      }
    }
  }
}

TEST_F(WindowDataLayerTest, MirrorsHalfOfTheWindows) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("fg_fraction: 1", "mirror: true"), &service);
  int mirrored = 0;
  for (int pass = 0; pass < 50; ++pass) {
    layer.Forward();
    const std::vector<float> labels = layer.Values(1), values = layer.Values(0);
    for (int n = 0; n < 8; ++n) {
      const int image = labels[n] == 1 ? 0 : 1;
      const int x1 = image == 0 ? 1 : 3, y1 = image == 0 ? 2 : 4;
      const bool mirror = values[n * 48] == PixelAt(image, 0, y1, x1 + 3);
      ASSERT_EQ(values[n * 48 + 3], PixelAt(image, 0, y1, mirror ? x1 : x1 + 3));
      mirrored += mirror;
    }
  }
  EXPECT_NEAR(mirrored, 200, 90);  // of 400, with standard deviation 10
}

TEST_F(WindowDataLayerTest, SubtractsTheMiddleOfTheMeanImageAndPadsWithZeros) {
  test::WriteFile(folder_ / "windows", "# 0\n0\n3\n12\n14\n2\n1 0.9 -2 2 1 5\n0 0.1 -2 2 1 5\n");
  caffe::BlobProto mean;
  mean.set_num(1), mean.set_channels(3), mean.set_height(6), mean.set_width(6);
  for (int i = 0; i < 108; ++i) mean.add_data(static_cast<float>(i));
  SaveBinary(folder_ / "mean", mean);
  DataService service{DataOptions()};
  LayerInstance layer(Param("crop_mode: 'square'", "mean_file: '" + folder_ / "mean" + "'"),
                      &service);
  // The square covers columns -2 to 2 of which 3 of 5 are inside, 2 of 4 in the output; rows 2
  // to 6.
  const std::vector<float> values = layer.Next();
  for (int y = 0; y < 4; ++y) {
    EXPECT_EQ(values[y * 4], 0.0f);
    EXPECT_EQ(values[y * 4 + 1], 0.0f);
  }
  // Pixel (0, 2) of the output is the mean of the neighbourhood of column 0, row 2 of the image.
  const float mean_there = static_cast<float>((1 + 0) * 6 + 1 + 2);
  EXPECT_NEAR(values[2] + mean_there, PixelAt(0, 0, 2, 0), 6);
}

TEST_F(WindowDataLayerTest, ResumesExactly) {
  const caffe::LayerParameter param = Param("", "mirror: true");
  DataService before{DataOptions()}, after{DataOptions()};
  std::vector<std::vector<float>> passes;
  caffe::StreamPosition position;
  {
    LayerInstance layer(param, &before);
    for (int pass = 0; pass < 5; ++pass) {
      passes.push_back(layer.Next());
      layer.layer().EndIteration();
      if (pass == 2) position = before.Positions("train")[0];
    }
  }
  EXPECT_NE(passes[3], passes[4]);
  after.Restore("train", {position});
  LayerInstance layer(param, &after);
  EXPECT_EQ(layer.Next(), passes[3]);
  EXPECT_EQ(layer.Next(), passes[4]);
}

TEST_F(WindowDataLayerTest, NamesTheFieldOrTheImageThatIsWrong) {
  const std::string at = "window_data_param.";
  EXPECT_EQ(test::SetUpError(Param("")), "");
  EXPECT_CONTAINS(test::SetUpError(Param("crop_mode: 'cut'")),
                  at + "crop_mode: is 'cut', expected");
  EXPECT_CONTAINS(test::SetUpError(Param("context_pad: 2")), at + "context_pad: is 2, expected");
  EXPECT_EQ(test::SetUpError(Param("context_pad: 1")), "");
  EXPECT_CONTAINS(test::SetUpError(Param("fg_fraction: 1.5")),
                  at + "fg_fraction: is 1.5, expected");
  EXPECT_CONTAINS(test::SetUpError(Param("fg_threshold: 0.95")), at + "fg_threshold: ");
  EXPECT_CONTAINS(test::SetUpError(Param("bg_threshold: 0.05")), at + "bg_threshold: ");
  EXPECT_CONTAINS(test::SetUpError(Param("", "mean_value: 1 mean_value: 2")),
                  "transform_param.mean_value: is given 2 times");
  EXPECT_CONTAINS(test::SetUpError(Param("", "mean_file: 'none'")),
                  "transform_param.mean_file: none: No such file");
  caffe::LayerParameter param = Param("");
  param.mutable_transform_param()->clear_crop_size();
  EXPECT_CONTAINS(test::SetUpError(param), "transform_param.crop_size: is 0, expected 1 to");
  param = Param("");
  param.mutable_window_data_param()->clear_batch_size();
  EXPECT_CONTAINS(test::SetUpError(param), at + "batch_size: is missing");
  param = Param("");
  param.mutable_window_data_param()->set_source("none");
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: none: No such file");
  param.mutable_window_data_param()->clear_source();
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: is missing");
  test::WriteFile(folder_ / "windows", "# 0\n0\n3\n12\n14\n2\n1 0.9 1 2 40 5\n3 0.1 6 7 90 10\n");
  DataService service{DataOptions()};
  LayerInstance layer(Param(""), &service);
  EXPECT_CONTAINS(
      test::ErrorOf([&] { layer.Forward(); }),
      folder_ / "windows: record '0': has a window with the corners (6, 7) and (90, 10)");
}

}  // namespace
}  // namespace millrace
