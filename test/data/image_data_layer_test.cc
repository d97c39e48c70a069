#include "nn/layers/data/data_layers.h"

#include <map>
#include <set>

#include "data/images/resize.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;

// Images 0 to 9, PNGs of 6 x 5, whose labels are their numbers, and one JPEG.
class ImageDataLayerTest : public testing::Test {
 protected:
  ImageDataLayerTest() {
    std::string list;
    for (int i = 0; i < 10; ++i) {
      const std::string name = "image " + std::to_string(i) + ".png";
      test::WriteFile(folder_ / name, test::EncodePng(test::SmoothPixels(3, 6, 5, i), {}));
      list += name + " " + std::to_string(i) + "\n";
    }
    test::WriteFile(folder_ / "list.txt", list);
  }

  caffe::LayerParameter Param(const std::string& more, const std::string& rest = "") const {
    return test::LayerOf("type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
                         folder_ / "list.txt' root_folder: '" + folder_ / "' batch_size: 4 " +
                         more + " } " + rest);
  }

  test::TempDir folder_;
};

TEST_F(ImageDataLayerTest, GivesImagesInBlueGreenRedAndLabelsInOrder) {
  DataService service{DataOptions()};
  LayerInstance layer(Param(""), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 3, 6, 5}));
  EXPECT_EQ(layer.top(1).shape(), Shape({4}));
  EXPECT_EQ(layer.layer().batch_size(), 4);
  for (int pass = 0; pass < 6; ++pass) {
    layer.Forward();
    for (int n = 0; n < 4; ++n) {
      const int number = (pass * 4 + n) % 10;
      ASSERT_EQ(layer.Values(1)[n], static_cast<float>(number));
      const Image pixels = test::SmoothPixels(3, 6, 5, number);
      const std::vector<float> values = layer.Values(0);
      for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < 30; ++i) {
          ASSERT_EQ(values[(n * 3 + c) * 30 + i], pixels.values[i * 3 + 2 - c]);
        }
      }
    }
  }
}

TEST_F(ImageDataLayerTest, ResizesThenCropsAndTransforms) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("new_height: 8 new_width: 9",
                            "transform_param { crop_size: 4 scale: 0.5 mean_value: 10 }"),
                      &service, caffe::TEST);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 3, 4, 4}));
  const std::vector<float> values = layer.Next();
  const Image pixels = test::SmoothPixels(3, 6, 5, 0);
  Image planar{3, 6, 5, std::vector<uint8_t>(90)}, resized;
  for (int i = 0; i < 90; ++i) planar.values[i] = pixels.values[i % 30 * 3 + 2 - i / 30];
  Resizer().Resize(planar, 8, 9, &resized);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 4; ++x) {  // the crop's corner is (2, 2)
        const int value = resized.values[(c * 8 + 2 + y) * 9 + 2 + x];
        ASSERT_EQ(values[(c * 4 + y) * 4 + x], 0.5f * static_cast<float>(value - 10));
      }
    }
  }
}

TEST_F(ImageDataLayerTest, GivesGreyImagesIfNotColour) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("is_color: false"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 1, 6, 5}));
  const Image pixels = test::SmoothPixels(3, 6, 5, 0);
  const float luma =
      0.299f * pixels.values[0] + 0.587f * pixels.values[1] + 0.114f * pixels.values[2];
  EXPECT_NEAR(layer.Next()[0], luma, 1);
}

TEST_F(ImageDataLayerTest, ShufflesAnewInEveryEpochAndResumesExactly) {
  const caffe::LayerParameter param = Param("shuffle: true");
  DataOptions options;
  options.seed = test::Seed();
  DataService service(options), resumed(options);
  std::vector<float> labels;
  caffe::StreamPosition position;
  {
    LayerInstance layer(param, &service);
    for (int pass = 0; pass < 5; ++pass) {
      for (const float label : layer.Next(1)) labels.push_back(label);
      layer.layer().EndIteration();
      if (pass == 1) position = service.Positions("train")[0];
    }
  }
  const std::vector<float> first(labels.begin(), labels.begin() + 10);
  const std::vector<float> second(labels.begin() + 10, labels.end());
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(std::set<float>(second.begin(), second.end()).size(), 10u);
  EXPECT_NE(first, second);
  resumed.Restore("train", {position});
  LayerInstance layer(param, &resumed);
  for (int at = 8; at < 20; at += 4) {
    EXPECT_EQ(layer.Next(1), std::vector<float>(labels.begin() + at, labels.begin() + at + 4));
  }
}

TEST_F(ImageDataLayerTest, DividesTheListAmongTheShardsOfACluster) {
  std::map<float, int> seen;
  for (uint64_t shard = 0; shard < 2; ++shard) {
    DataOptions options;
    options.shard_index = shard;
    options.shard_count = 2;
    DataService service(options);
    caffe::LayerParameter param = Param("shuffle: true");
    param.mutable_image_data_param()->set_batch_size(5);
    LayerInstance layer(param, &service);
    for (const float label : layer.Next(1)) ++seen[label];
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST_F(ImageDataLayerTest, CopiesItsBatchesToADevice) {
  for (const test::FakeMode mode : {test::FakeMode::kLate, test::FakeMode::kThread}) {
    test::FakeDevice device({.mode = mode});
    DataService service{DataOptions()};
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    LayerInstance layer(Param(""), &service, caffe::TRAIN, *queue);
    for (int pass = 0; pass < 3; ++pass) {
      layer.Forward();
      queue->Synchronize();
      EXPECT_EQ(layer.Values(1)[1], static_cast<float>((pass * 4 + 1) % 10));
      EXPECT_EQ(layer.Values(0)[30 * 2],
                static_cast<float>(test::SmoothPixels(3, 6, 5, pass * 4 % 10).values[0]));
    }
  }
}

// Batches of one image have its size, as in Caffe.
TEST_F(ImageDataLayerTest, ABatchOfOneImageHasItsSize) {
  const int sizes[][2] = {{6, 5}, {9, 7}, {3, 4}, {9, 2}};
  std::string list;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "size " + std::to_string(i) + ".png";
    const Image pixels = test::SmoothPixels(3, sizes[i][0], sizes[i][1], i);
    test::WriteFile(folder_ / name, test::EncodePng(pixels, {}));
    list += name + " " + std::to_string(i) + "\n";
  }
  test::WriteFile(folder_ / "list.txt", list);
  test::FakeDevice device({.mode = test::FakeMode::kThread});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  for (Queue* const on : {&HostQueue(), queue.get()}) {
    caffe::LayerParameter param = Param("", "transform_param { scale: 2 mean_value: 3 }");
    param.mutable_image_data_param()->set_batch_size(1);
    DataService service{DataOptions()};
    LayerInstance layer(param, &service, caffe::TRAIN, *on);
    EXPECT_TRUE(layer.layer().ReshapesInForward());
    EXPECT_EQ(layer.top(0).shape(), Shape({1, 3, 6, 5}));
    for (int pass = 0; pass < 9; ++pass) {
      layer.Reshape();
      layer.Forward();
      on->Synchronize();
      const int number = pass % 4, h = sizes[number][0], w = sizes[number][1];
      ASSERT_EQ(layer.top(0).shape(), Shape({1, 3, h, w}));
      EXPECT_EQ(layer.Values(1), std::vector<float>{static_cast<float>(number)});
      const Image pixels = test::SmoothPixels(3, h, w, number);
      const std::vector<float> values = layer.Values(0);
      for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < h * w; ++i) {
          ASSERT_EQ(values[c * h * w + i],
                    2.0f * static_cast<float>(pixels.values[i * 3 + 2 - c] - 3));
        }
      }
    }
  }
  // A crop makes them alike; larger batches and mean images need one size.
  caffe::LayerParameter param = Param("", "transform_param { crop_size: 2 }");
  param.mutable_image_data_param()->set_batch_size(1);
  DataService service{DataOptions()};
  LayerInstance crops(param, &service);
  EXPECT_FALSE(crops.layer().ReshapesInForward());
  for (int pass = 0; pass < 4; ++pass) crops.Forward();
  DataService other{DataOptions()};
  LayerInstance batches(Param(""), &other);
  EXPECT_FALSE(batches.layer().ReshapesInForward());
  EXPECT_CONTAINS(test::ErrorOf([&] { batches.Forward(); }), "like the first record");
}

// As Caffe, which reads labels with atoi.
TEST_F(ImageDataLayerTest, CutsLabelsToWholeNumbers) {
  test::WriteFile(folder_ / "list.txt",
                  "image 0.png 0.75\nimage 1.png -2.5\nimage 2.png 3\n"
                  "image 3.png 1e1\n");
  DataService service{DataOptions()};
  LayerInstance layer(Param(""), &service);
  EXPECT_EQ(layer.Next(1), (std::vector<float>{0, -2, 3, 1}));
  for (const char* line : {"image 0.png cat", "image 0.png 1x", "image 0.png", "image 0.png\t3"}) {
    test::WriteFile(folder_ / "list.txt", line);
    EXPECT_CONTAINS(test::SetUpError(Param("")), " a label (an integer)") << line;
  }
}

TEST_F(ImageDataLayerTest, NamesFilesThatCannotBeUsed) {
  test::WriteFile(folder_ / "image 5.png", "\x89PNG\r\n\x1a\n damaged");
  DataService service{DataOptions()};
  LayerInstance layer(Param(""), &service);
  layer.Forward();
  EXPECT_CONTAINS(test::ErrorOf([&] { layer.Forward(); }),
                  folder_ / "list.txt: record 'image 5.png': is a damaged PNG: ");
  test::WriteFile(folder_ / "image 0.png", test::EncodePng(test::SmoothPixels(3, 6, 6), {}));
  DataService other{DataOptions()};
  LayerInstance sizes(Param(""), &other);
  EXPECT_CONTAINS(test::ErrorOf([&] { sizes.Forward(); }),
                  "record 'image 1.png': is 3 x 6 x 5, expected 3 x 6 x 6 like the first record");
}

TEST_F(ImageDataLayerTest, NamesTheFieldThatIsWrong) {
  const std::string at = "image_data_param.";
  EXPECT_EQ(test::SetUpError(Param("")), "");
  EXPECT_EQ(test::SetUpError(Param("new_height: 4")),
            at + "new_width: is 0 or missing, expected new_height and new_width together");
  EXPECT_CONTAINS(test::SetUpError(Param("new_width: 4")), at + "new_height: is 0 or missing");
  EXPECT_CONTAINS(test::SetUpError(Param("new_height: 4 new_width: 99999")),
                  "new_width is 99999, expected at most");
  caffe::LayerParameter param = Param("");
  param.mutable_image_data_param()->set_batch_size(0);
  EXPECT_EQ(test::SetUpError(param), at + "batch_size: is 0, expected 1 to 1048576");
  param = Param("");
  param.mutable_image_data_param()->clear_source();
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: is missing, expected the path of a list");
  param.mutable_image_data_param()->set_source("nowhere");
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: nowhere: No such file");
  param = Param("");
  param.mutable_image_data_param()->set_root_folder("/nowhere/");
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: " + folder_ / "list.txt: /nowhere/image");
  EXPECT_CONTAINS(test::SetUpError(Param("", "transform_param { crop_size: 7 }")),
                  "transform_param.crop_size: is 7, more than the images of 6 x 5");
  EXPECT_EQ(test::SetUpError(Param("", "data_param { prefetch: 2 }")), "");
  // Caffe reads no other field of data_param here.
  EXPECT_EQ(test::SetUpError(Param("", "data_param { prefetch: 2 batch_size: 3 source: 'x' }")),
            "");
}

}  // namespace
}  // namespace millrace
