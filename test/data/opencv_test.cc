// Changes of images against results of OpenCV 4.6 for the same images.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "data/images/color.h"
#include "data/images/noise.h"
#include "data/images/resize.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;

Image Pattern(int channels, int height, int width) {
  Image image{channels, height, width, {}};
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        image.values.push_back(static_cast<uint8_t>(x * x * 7 + y * 13 + c * 50 + x * y * 31));
      }
    }
  }
  return image;
}

int LargestDifference(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

struct Resized {
  Interpolation interpolation;
  int height, width;
  Bytes values;
};

TEST(Resampler, GivesWhatOpenCvGives) {
  const std::vector<Resized> all = {
      {Interpolation::kArea, 4, 5, {9,  40,  100, 153, 208, 38,  122, 95,  182, 169,
                                    75, 176, 150, 91,  84,  104, 161, 121, 121, 166}},
      {Interpolation::kArea, 9, 3, {4,   53,  166, 19,  102, 138, 35,  150, 110,
                                    65,  64,  237, 81,  113, 191, 96,  162, 145,
                                    127, 186, 89,  142, 143, 152, 158, 100, 216}},
      {Interpolation::kArea, 8, 9, {0,   5,   16,  33,  63,  105, 148, 197, 252, 9,   28,  54,
                                    86,  134, 193, 154, 144, 214, 17,  52,  92,  127, 119, 196,
                                    171, 152, 176, 26,  75,  131, 155, 19,  114, 201, 222, 138,
                                    39,  110, 188, 235, 125, 27,  100, 142, 81,  48,  134, 153,
                                    141, 195, 116, 106, 89,  43,  56,  157, 154, 109, 181, 119,
                                    123, 122, 90,  65,  181, 193, 138, 81,  36,  154, 240, 223}},
      {Interpolation::kArea, 3, 7, {6,  29,  66,  116, 180, 131, 224, 32, 117, 216, 72,
                                    70, 211, 110, 58,  205, 110, 156, 88, 163, 124}},
      {Interpolation::kNearest, 4, 5, {0,  7,   28,  112, 175, 13, 51,  103, 249, 87,
                                       39, 139, 253, 11,  167, 52, 183, 72,  148, 79}},
      {Interpolation::kNearest, 9, 3, {0,  28,  112, 0,  28,  112, 13, 103, 249,
                                       26, 178, 130, 26, 178, 130, 39, 253, 11,
                                       52, 72,  148, 52, 72,  148, 65, 147, 29}},
      {Interpolation::kNearest, 8, 9, {0,   0,   7,   28,  63,  63,  112, 175, 252, 0,   0,   7,
                                       28,  63,  63,  112, 175, 252, 13,  13,  51,  103, 169, 169,
                                       249, 87,  195, 26,  26,  95,  178, 19,  19,  130, 255, 138,
                                       39,  39,  139, 253, 125, 125, 11,  167, 81,  39,  39,  139,
                                       253, 125, 125, 11,  167, 81,  52,  52,  183, 72,  231, 231,
                                       148, 79,  24,  65,  65,  227, 147, 81,  81,  29,  247, 223}},
      {Interpolation::kNearest, 3, 7, {0,   7,   28,  63, 112, 175, 252, 26,  95, 178, 19,
                                       130, 255, 138, 52, 183, 72,  231, 148, 79, 24}},
      {Interpolation::kCubic, 4, 5, {4,  27,  92,  147, 225, 31, 143, 46,  212, 168,
                                     61, 205, 165, 63,  71,  92, 172, 119, 113, 185}},
      {Interpolation::kCubic, 9, 3, {0,   54,  215, 15,  130, 143, 40,  155, 114,
                                     57,  33,  218, 77,  48,  216, 105, 152, 132,
                                     143, 231, 49,  175, 166, 149, 187, 68,  255}},
      {Interpolation::kCubic, 8, 9, {0,   0,   10,  30,  55,  86,  143, 214, 255, 5,   19,  43,
                                     85,  147, 213, 142, 126, 230, 15,  46,  103, 134, 120, 216,
                                     187, 143, 174, 23,  69,  164, 165, 18,  70,  213, 235, 120,
                                     31,  88,  210, 244, 105, 9,   111, 174, 84,  39,  131, 157,
                                     150, 216, 130, 92,  63,  14,  49,  172, 155, 90,  189, 136,
                                     124, 118, 87,  55,  187, 220, 130, 70,  4,   153, 255, 236}},
      {Interpolation::kCubic, 3, 7, {5,  25,  58,  130, 192, 115, 229, 33,  117, 240, 48,
                                     47, 235, 110, 60,  209, 93,  166, 101, 155, 118}},
      {Interpolation::kLanczos4, 4, 5, {4,  28,  98,  138, 224, 27, 149, 53,  227, 158,
                                        56, 198, 177, 64,  69,  94, 168, 117, 116, 191}},
      {Interpolation::kLanczos4, 9, 3, {1,   48,  219, 17,  137, 134, 40,  156, 106,
                                        52,  40,  205, 65,  29,  237, 102, 161, 130,
                                        154, 237, 50,  182, 162, 156, 185, 66,  255}},
      {Interpolation::kLanczos4,
       8,
       9,
       {0,  1,   12,  30,  51,  86,  145, 216, 255, 6,  21,  47,  86,  154, 218, 131, 118, 232,
        16, 45,  106, 119, 124, 230, 194, 130, 174, 27, 56,  174, 167, 11,  49,  229, 238, 123,
        35, 82,  213, 250, 98,  0,   121, 187, 83,  37, 139, 149, 148, 229, 140, 78,  58,  11,
        45, 180, 150, 79,  184, 145, 124, 126, 86,  54, 185, 223, 136, 69,  0,   154, 255, 231}},
      {Interpolation::kLanczos4, 3, 7, {5,  25,  62,  137, 187, 108, 228, 32,  117, 246, 29,
                                        28, 253, 121, 60,  209, 85,  162, 109, 159, 119}},
  };
  Resampler resampler;
  for (const Resized& each : all) {
    Image out;
    resampler.Resize(Pattern(1, 6, 7), each.height, each.width, each.interpolation, &out);
    EXPECT_EQ(LargestDifference(out.values, each.values), 0)
        << static_cast<int>(each.interpolation) << " " << each.height << " x " << each.width;
  }
}

TEST(Resampler, TakesEveryChannelAlike) {
  const Image image = Pattern(3, 6, 7);
  for (const Interpolation each :
       {Interpolation::kLinear, Interpolation::kArea, Interpolation::kNearest,
        Interpolation::kCubic, Interpolation::kLanczos4}) {
    Image all;
    Resampler().Resize(image, 5, 4, each, &all);
    for (int c = 0; c < 3; ++c) {
      Image one{1, 6, 7, {image.values.begin() + c * 42, image.values.begin() + c * 42 + 42}}, out;
      Resampler().Resize(one, 5, 4, each, &out);
      EXPECT_TRUE(std::equal(out.values.begin(), out.values.end(), all.values.begin() + c * 20));
    }
  }
}

TEST(Resampler, KeepsAnImageOfTheSameSizeAndAreasOfOneValue) {
  const Image image = Pattern(1, 6, 7);
  const Image constant{1, 6, 7, Bytes(42, 200)};
  for (const Interpolation each :
       {Interpolation::kLinear, Interpolation::kArea, Interpolation::kNearest,
        Interpolation::kCubic, Interpolation::kLanczos4}) {
    Image out;
    Resampler().Resize(image, 6, 7, each, &out);
    EXPECT_EQ(out.values, image.values);
    for (const int size : {1, 2, 3, 20}) {
      Resampler().Resize(constant, size, 21 - size, each, &out);
      EXPECT_EQ(out.values, Bytes(size * (21 - size), 200));
    }
  }
}

TEST(Color, ConvertsToHueAsOpenCvDoes) {
  Image image = Pattern(3, 2, 5);
  BgrToHsv(&image);
  const Bytes expected = {15,  15,  15,  15,  15,  15,  15,  15,  83,  127,
                          255, 238, 199, 156, 120, 226, 169, 126, 240, 211,
                          100, 107, 128, 163, 212, 113, 151, 203, 219, 249};
  EXPECT_EQ(image.values, expected);
  HsvToBgr(&image);
  const Bytes back = {0,  7,   28,  63,  112, 13,  51,  103, 171, 249, 50,  57,  78,  113, 162,
                      63, 101, 153, 219, 43,  100, 107, 128, 163, 212, 113, 151, 203, 13,  91};
  EXPECT_LE(LargestDifference(image.values, back), 1);
}

TEST(Color, WrapsHuesOf180AndMore) {
  Image a{3, 1, 1, {10, 200, 100}}, b{3, 1, 1, {190, 200, 100}};
  HsvToBgr(&a);
  HsvToBgr(&b);
  EXPECT_LE(LargestDifference(a.values, b.values), 1);
}

TEST(Color, DecolorizesAndEqualizesAsOpenCvDoes) {
  Image grey = Pattern(3, 2, 5);
  Decolorize(&grey);
  EXPECT_EQ(grey.values,
            (Bytes{59, 66,  87,  122, 171, 72, 110, 162, 152, 81,  59, 66,  87,  122, 171,
                   72, 110, 162, 152, 81,  59, 66,  87,  122, 171, 72, 110, 162, 152, 81}));
  Image spread = Pattern(3, 2, 5);
  EqualizeHistogram(&spread);
  EXPECT_EQ(spread.values,
            (Bytes{0,  0,   54,  111, 196, 0,  83, 168, 216, 253, 0,  19,  104, 161, 246,
                   48, 133, 218, 255, 46,  41, 69, 154, 211, 255, 98, 183, 255, 59,  98}));
  Image one = Pattern(1, 2, 5);
  EqualizeHistogram(&one);
  EXPECT_EQ(one.values, (Bytes{0, 28, 85, 142, 198, 57, 113, 170, 227, 255}));
  Image flat{1, 1, 3, {7, 7, 7}};
  EqualizeHistogram(&flat);
  EXPECT_EQ(flat.values, (Bytes{7, 7, 7}));
}

Image WithNoise(const caffe::NoiseParameter& param, Image image) {
  Rng rng(1, {1});
  Noise(param, image.channels).Apply(&rng, &image);
  return image;
}

TEST(Noise, BlursAndErodesAsOpenCvDoes) {
  caffe::NoiseParameter blur, erode;
  blur.set_gauss_blur(true);
  erode.set_erode(true);
  EXPECT_LE(LargestDifference(
                WithNoise(blur, Pattern(1, 5, 6)).values,
                {60,  69,  92,  118, 138, 145, 69,  78,  98,  121, 138, 144, 90,  97,  112,
                 125, 133, 136, 109, 115, 125, 129, 128, 127, 118, 123, 131, 132, 127, 125}),
            1);
  EXPECT_EQ(WithNoise(erode, Pattern(1, 5, 6)).values,
            (Bytes{0,  0,  7,  28, 63, 87, 0,  7,  28, 19, 87, 87, 13, 26, 19,
                   19, 11, 87, 26, 39, 72, 11, 11, 11, 39, 52, 72, 72, 11, 79}));
}

}  // namespace
}  // namespace millrace
