// What differs from ImageSegData, which the layer is otherwise.
#include <set>

#include "contrib/segmentation/image_data_layers.h"
#include "test/data/layer_instance.h"
#include "test/support/encode_images.h"

namespace millrace {
namespace {

using test::LayerInstance;

constexpr int kMapHeight = 6, kMapWidth = 8, kMapPlane = kMapHeight * kMapWidth;

// The grey value of pixel k of the map: all values from 0 to 255 in steps of about 5.
int GreyAt(int k) { return k * 255 / (kMapPlane - 1); }

// A pair "i.png m.png" of 6 x 8 pixels.
class ImageLabelmapDataLayerTest : public testing::Test {
 protected:
  ImageLabelmapDataLayerTest() {
    Image map{1, kMapHeight, kMapWidth, {}};
    for (int k = 0; k < kMapPlane; ++k) map.values.push_back(static_cast<uint8_t>(GreyAt(k)));
    test::PngKind grey;
    grey.color_type = 0;
    test::WriteFile(folder_ / "i.png",
                    test::EncodePng(test::SmoothPixels(3, kMapHeight, kMapWidth, 1), {}));
    test::WriteFile(folder_ / "m.png", test::EncodePng(map, grey));
    test::WriteFile(folder_ / "list.txt", "i.png m.png\n");
  }

  caffe::LayerParameter Param(const std::string& more = "",
                              const std::string& transform = "") const {
    return test::LayerOf(
        "type: 'ImageLabelmapData' top: 'data' top: 'label' image_data_param { source: '" +
        folder_ / "list.txt" + "' root_folder: '" + folder_ / "' batch_size: 1 " + more +
        " } transform_param { " + transform + " }");
  }
  std::string Complaint(const caffe::LayerParameter& param) const {
    DataService service{DataOptions()};
    return test::ErrorOf([&] { LayerInstance(param, &service).Forward(); });
  }

  test::TempDir folder_;
};

TEST_F(ImageLabelmapDataLayerTest, LabelsAreTheGreyValuesRoundedToZeroOrOne) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("new_height: 0 new_width: 0", "scale: 0.5 mean_value: 10"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({1, 3, kMapHeight, kMapWidth}));
  EXPECT_EQ(layer.top(1).shape(), Shape({1, 1, kMapHeight, kMapWidth}));
  layer.Forward();
  for (int k = 0; k < kMapPlane; ++k) {
    EXPECT_EQ(layer.Values(1)[k], GreyAt(k) / 255.0 > 0.5 ? 1 : 0) << GreyAt(k);
  }
  const auto pixels = test::SmoothPixels(3, kMapHeight, kMapWidth, 1).values;
  EXPECT_EQ(layer.Values(0)[0], 0.5f * static_cast<float>(pixels[2] - 10));  // blue
}

TEST_F(ImageLabelmapDataLayerTest, CropsAndMirrorsBothAlike) {
  DataService service{DataOptions()};
  LayerInstance layer(Param("", "crop_h: 3 crop_w: 8 mirror: true"), &service);
  std::set<std::vector<float>> seen;
  for (int pass = 0; pass < 80; ++pass) {
    layer.Forward();
    const std::vector<float> values = layer.Values(0), labels = layer.Values(1);
    seen.insert(labels);
    // The part of the image that lies here tells which part of the map belongs to it.
    bool found = false;
    for (int top = 0; top <= kMapHeight - 3; ++top) {
      for (const bool mirror : {false, true}) {
        bool same = true;
        for (int k = 0; k < 3 * kMapWidth && same; ++k) {
          const int x = mirror ? kMapWidth - 1 - k % kMapWidth : k % kMapWidth;
          const int at = (top + k / kMapWidth) * kMapWidth + x;
          const auto pixels = test::SmoothPixels(3, kMapHeight, kMapWidth, 1).values;
          same = values[k] == static_cast<float>(pixels[at * 3 + 2]) &&
                 labels[k] == (GreyAt(at) >= 128 ? 1 : 0);
        }
        found |= same;
      }
    }
    ASSERT_TRUE(found) << pass;
  }
  EXPECT_GT(seen.size(), 1u);
}

TEST_F(ImageLabelmapDataLayerTest, RefusesWhatItCannotGive) {
  EXPECT_CONTAINS(Complaint(Param("", "crop_size: 7")),
                  "is 6 x 8, expected at least 7 x 7 for the crop");
  EXPECT_CONTAINS(Complaint(Param("label_type: IMAGE")), "is not PIXEL, expected label images");
  EXPECT_CONTAINS(Complaint(Param("", "mean_file: 'm'")), "expected mean_value");
}

}  // namespace
}  // namespace millrace
