#include "data/images/image_decoder.h"

#include <png.h>

#include <algorithm>

#include "base/error.h"
#include "data/images/orientation.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::EncodeJpeg;
using test::EncodePng;
using test::PngKind;
using test::SmoothPixels;

constexpr ImageColor kAllColors[] = {ImageColor::kNative, ImageColor::kColor, ImageColor::kGray};

Image Decode(const std::string& file, ImageColor color = ImageColor::kNative) {
  return ImageDecoder(color).Decode(file);
}

std::string DecodeError(const std::string& file, ImageColor color = ImageColor::kNative) {
  return test::ErrorOf([&] { Decode(file, color); });
}

// The planes of `pixels` (H, W, C), the first three in reverse order.
std::vector<uint8_t> Planes(const Image& pixels) {
  std::vector<uint8_t> planes;
  for (int c = 0; c < pixels.channels; ++c) {
    const int from = pixels.channels >= 3 && c < 3 ? 2 - c : c;
    for (size_t i = from; i < pixels.values.size(); i += pixels.channels) {
      planes.push_back(pixels.values[i]);
    }
  }
  return planes;
}

// `pixels` without the last channel.
Image WithoutAlpha(const Image& pixels) {
  Image image;
  ResizeImage(pixels.channels - 1, pixels.height, pixels.width, &image);
  image.values.clear();
  for (size_t i = 0; i < pixels.values.size(); ++i) {
    if (static_cast<int>(i % pixels.channels) + 1 < pixels.channels) {
      image.values.push_back(pixels.values[i]);
    }
  }
  return image;
}

void ExpectImage(const Image& image, int channels, int height, int width,
                 const std::vector<uint8_t>& values) {
  EXPECT_EQ(image.channels, channels);
  EXPECT_EQ(image.height, height);
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.values, values);
}

TEST(JpegDecoder, GivesWhatLibjpegGivesInPlanesOfBlueGreenRed) {
  for (bool progressive : {false, true}) {
    const std::string file = EncodeJpeg(SmoothPixels(3, 13, 21), progressive);
    const std::vector<uint8_t> expected = Planes(test::DecodeWithLibjpeg(file, 3));
    ExpectImage(Decode(file), 3, 13, 21, expected);
    ExpectImage(Decode(file, ImageColor::kColor), 3, 13, 21, expected);
    ExpectImage(Decode(file, ImageColor::kGray), 1, 13, 21,
                test::DecodeWithLibjpeg(file, 1).values);
  }
}

TEST(JpegDecoder, KeepsGreyImagesInOneChannelUnlessColourIsForced) {
  const std::string file = EncodeJpeg(SmoothPixels(1, 9, 8));
  const Image gray = test::DecodeWithLibjpeg(file, 1);
  ExpectImage(Decode(file), 1, 9, 8, gray.values);
  ExpectImage(Decode(file, ImageColor::kGray), 1, 9, 8, gray.values);
  std::vector<uint8_t> thrice;
  for (int c = 0; c < 3; ++c) thrice.insert(thrice.end(), gray.values.begin(), gray.values.end());
  ExpectImage(Decode(file, ImageColor::kColor), 3, 9, 8, thrice);
}

// Four corners of two inks, as Adobe's programs store them: inverted.
TEST(JpegDecoder, TurnsFourColoursIntoThreeOrGrey) {
  Image ink;
  ResizeImage(4, 8, 8, &ink);
  for (int i = 0; i < 64; ++i) {
    const uint8_t cyan = 55, magenta = 155, yellow = 255, black = 204;
    const uint8_t values[] = {cyan, magenta, yellow, black};
    std::copy_n(values, 4, &ink.values[i * 4]);
  }
  const std::string file = EncodeJpeg(ink);
  for (const ImageColor color : {ImageColor::kNative, ImageColor::kColor}) {
    const Image image = Decode(file, color);
    ASSERT_EQ(image.channels, 3);
    EXPECT_NEAR(image.values[0], 204, 2);            // blue
    EXPECT_NEAR(image.values[64], 155 * 0.8, 2);     // green
    EXPECT_NEAR(image.values[2 * 64], 55 * 0.8, 2);  // red
  }
  const Image gray = Decode(file, ImageColor::kGray);
  ASSERT_EQ(gray.channels, 1);
  EXPECT_NEAR(gray.values[0], (0.114 * 255 + 0.587 * 155 + 0.299 * 55) * 0.8, 2);
}

TEST(JpegDecoder, KeepsAllPixelsOfAFileWithoutEndMarker) {
  for (bool progressive : {false, true}) {
    const std::string file = EncodeJpeg(SmoothPixels(3, 24, 24), progressive);
    ImageDecoder whole(ImageColor::kColor), cut(ImageColor::kColor);
    whole.Decode(file);
    EXPECT_EQ(cut.Decode(file.substr(0, file.size() - 2)).values, whole.Decode(file).values);
    EXPECT_FALSE(cut.ends_early());
  }
}

TEST(JpegDecoder, GivesThePixelsThatAreThereIfAFileEndsEarly) {
  const std::string file = EncodeJpeg(SmoothPixels(1, 64, 64));
  const Image whole = Decode(file);
  ImageDecoder decoder(ImageColor::kNative);
  const size_t scan = file.find("\xff\xda");
  ASSERT_NE(scan, std::string::npos);
  const Image& cut = decoder.Decode(file.substr(0, scan + (file.size() - scan) / 2));
  EXPECT_TRUE(decoder.ends_early());
  ASSERT_EQ(cut.values.size(), whole.values.size());
  EXPECT_TRUE(std::equal(cut.values.begin(), cut.values.begin() + 16 * 64, whole.values.begin()));
  const std::vector<uint8_t> last(cut.values.end() - 8 * 64, cut.values.end());
  EXPECT_EQ(last, std::vector<uint8_t>(8 * 64, last[0]));  // one shade
  decoder.Decode(file);
  EXPECT_FALSE(decoder.ends_early());
}

TEST(JpegDecoder, RefusesFilesThatEndBeforeTheirFirstPixelOrAreDamagedBefore) {
  const std::string file = EncodeJpeg(SmoothPixels(3, 24, 24));
  const size_t scan = file.find("\xff\xda");
  ASSERT_NE(scan, std::string::npos);
  for (size_t size = 3; size < scan; ++size) {
    EXPECT_CONTAINS(DecodeError(file.substr(0, size)), "is a damaged JPEG: ");
  }
  // An end marker in the midst of the pixels.
  const std::string damaged = file.substr(0, scan + 30) + "\xff\xd9" + file.substr(scan + 30);
  EXPECT_CONTAINS(DecodeError(damaged), "is a damaged JPEG: ");
}

// A 2 x 3 image whose pixels are its places in the upright one.
TEST(ImageDecoder, TurnsImagesAsTheirOrientationSays) {
  struct Turned {
    int orientation, height, width;
    std::vector<uint8_t> upright;
  };
  const std::vector<uint8_t> stored = {1, 2, 3, 4, 5, 6};  // rows of 3
  const std::vector<Turned> all = {
      {1, 2, 3, {1, 2, 3, 4, 5, 6}}, {2, 2, 3, {3, 2, 1, 6, 5, 4}}, {3, 2, 3, {6, 5, 4, 3, 2, 1}},
      {4, 2, 3, {4, 5, 6, 1, 2, 3}}, {5, 3, 2, {1, 4, 2, 5, 3, 6}}, {6, 3, 2, {4, 1, 5, 2, 6, 3}},
      {7, 3, 2, {6, 3, 5, 2, 4, 1}}, {8, 3, 2, {3, 6, 2, 5, 1, 4}}, {9, 2, 3, {1, 2, 3, 4, 5, 6}}};
  for (const Turned& turned : all) {
    SCOPED_TRACE(turned.orientation);
    Image image{1, 2, 3, stored};
    MakeUpright(turned.orientation, &image);
    ExpectImage(image, 1, turned.height, turned.width, turned.upright);
  }
}

TEST(JpegDecoder, AppliesItsOrientationWhereAColourIsForced) {
  const std::string file = EncodeJpeg(SmoothPixels(3, 13, 21));
  for (const bool little : {true, false}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::string turned = test::WithOrientation(file, orientation, little);
      EXPECT_EQ(Decode(turned).values, Decode(file).values);
      for (const ImageColor color : {ImageColor::kColor, ImageColor::kGray}) {
        Image rows{1, 13, 21, Decode(file, ImageColor::kGray).values};
        MakeUpright(orientation, &rows);
        const Image image = Decode(turned, color);
        EXPECT_EQ(image.height, rows.height);
        EXPECT_EQ(image.width, rows.width);
        if (color == ImageColor::kGray) {
          EXPECT_EQ(image.values, rows.values);
        }
      }
    }
  }
}

TEST(JpegDecoder, LetsStrayBytesBetweenSegmentsPass) {
  std::string file = EncodeJpeg(SmoothPixels(3, 8, 8));
  const Image whole = Decode(file);
  const size_t tables = file.find("\xff\xdb");
  ASSERT_NE(tables, std::string::npos);
  file.insert(tables, "stray");
  EXPECT_EQ(Decode(file).values, whole.values);
  EXPECT_EQ(Decode(file + "behind the end").values, whole.values);
}

TEST(PngDecoder, GivesColoursInPlanesOfBlueGreenRed) {
  const Image pixels = SmoothPixels(3, 11, 7);
  for (bool interlaced : {false, true}) {
    const std::string file = EncodePng(pixels, {PNG_COLOR_TYPE_RGB, 8, interlaced});
    ExpectImage(Decode(file), 3, 11, 7, Planes(pixels));
    ExpectImage(Decode(file, ImageColor::kColor), 3, 11, 7, Planes(pixels));
    EXPECT_EQ(Decode(file, ImageColor::kGray).channels, 1);
  }
}

TEST(PngDecoder, WeighsColoursAsOpenCvDoesWhereGreyIsForced) {
  Image pixels = SmoothPixels(3, 1, 4);
  pixels.values = {255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 200, 200};
  const Image gray = Decode(EncodePng(pixels, {PNG_COLOR_TYPE_RGB}), ImageColor::kGray);
  ASSERT_EQ(gray.values.size(), 4u);
  EXPECT_NEAR(gray.values[0], 0.299 * 255, 1);
  EXPECT_NEAR(gray.values[1], 0.587 * 255, 1);
  EXPECT_NEAR(gray.values[2], 0.114 * 255, 1);
  EXPECT_EQ(gray.values[3], 200);
}

TEST(PngDecoder, KeepsGreyImagesInOneChannelUnlessColourIsForced) {
  const Image pixels = SmoothPixels(1, 5, 6);
  const std::string file = EncodePng(pixels, {PNG_COLOR_TYPE_GRAY});
  ExpectImage(Decode(file), 1, 5, 6, pixels.values);
  ExpectImage(Decode(file, ImageColor::kGray), 1, 5, 6, pixels.values);
  const Image color = Decode(file, ImageColor::kColor);
  ASSERT_EQ(color.channels, 3);
  for (int i = 0; i < 90; ++i) EXPECT_EQ(color.values[i], pixels.values[i % 30]);
}

TEST(PngDecoder, SpreadsGreyOfFewerBitsOverTheRange) {
  Image packed;
  ResizeImage(1, 1, 4, &packed);
  packed.values = {0b0001'1011};  // 0, 1, 2, 3 with two bits each
  const Image image = Decode(EncodePng(packed, {PNG_COLOR_TYPE_GRAY, 2}));
  EXPECT_EQ(image.values, std::vector<uint8_t>({0, 85, 170, 255}));
}

TEST(PngDecoder, KeepsAlphaAsAFourthChannelUnlessAColourIsForced) {
  const Image pixels = SmoothPixels(4, 3, 5);
  const std::string file = EncodePng(pixels, {PNG_COLOR_TYPE_RGB_ALPHA});
  ExpectImage(Decode(file), 4, 3, 5, Planes(pixels));
  ExpectImage(Decode(file, ImageColor::kColor), 3, 3, 5, Planes(WithoutAlpha(pixels)));
  EXPECT_EQ(Decode(file, ImageColor::kGray).channels, 1);

  const Image gray = SmoothPixels(2, 3, 5);
  const std::string gray_file = EncodePng(gray, {PNG_COLOR_TYPE_GRAY_ALPHA});
  ExpectImage(Decode(gray_file, ImageColor::kGray), 1, 3, 5, WithoutAlpha(gray).values);
  const Image native = Decode(gray_file);
  ASSERT_EQ(native.channels, 4);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(native.values[i], gray.values[2 * i]);
    EXPECT_EQ(native.values[45 + i], gray.values[2 * i + 1]);
  }
}

TEST(PngDecoder, LooksColoursUpInThePalette) {
  Image indices;
  ResizeImage(1, 1, 3, &indices);
  indices.values = {2, 0, 1};
  PngKind kind{PNG_COLOR_TYPE_PALETTE, 8, false, "\x01\x02\x03\x11\x12\x13\x21\x22\x23"};
  const std::vector<uint8_t> colors = {0x23, 0x03, 0x13, 0x22, 0x02, 0x12, 0x21, 0x01, 0x11};
  ExpectImage(Decode(EncodePng(indices, kind)), 3, 1, 3, colors);
  kind.palette_alpha = "\x80";  // alpha of the first entry; the others are opaque
  ExpectImage(Decode(EncodePng(indices, kind), ImageColor::kColor), 3, 1, 3, colors);
  std::vector<uint8_t> with_alpha = colors;
  for (uint8_t alpha : {0xff, 0x80, 0xff}) with_alpha.push_back(alpha);
  ExpectImage(Decode(EncodePng(indices, kind)), 4, 1, 3, with_alpha);
}

TEST(PngDecoder, ReducesSixteenBitsToTheUpperEightOnlyWhereAColourIsForced) {
  Image words;
  ResizeImage(1, 1, 2, &words);
  words.values = {0x12, 0xff, 0xfe, 0x01};
  const std::string file = EncodePng(words, {PNG_COLOR_TYPE_GRAY, 16});
  EXPECT_CONTAINS(DecodeError(file), "is a PNG of 16 bits a value, which is not supported");
  ExpectImage(Decode(file, ImageColor::kGray), 1, 1, 2, {0x12, 0xfe});
  ExpectImage(Decode(file, ImageColor::kColor), 3, 1, 2, {0x12, 0xfe, 0x12, 0xfe, 0x12, 0xfe});
}

TEST(PngDecoder, RefusesEveryTruncationAndDamage) {
  std::string file = EncodePng(SmoothPixels(3, 4, 4), PngKind());
  for (size_t size = 8; size < file.size(); ++size) {
    EXPECT_CONTAINS(DecodeError(file.substr(0, size)), "is a damaged PNG: ");
  }
  file[file.find("IDAT") + 6] ^= 1;
  EXPECT_CONTAINS(DecodeError(file), "is a damaged PNG: ");
}

TEST(ImageDecoder, RefusesAnEmptyFile) {
  EXPECT_EQ(DecodeError(""), "is empty, expected an image");
}

TEST(ImageDecoder, RefusesSizesBeyondReasonBeforeItTakesMemoryForThem) {
  std::string jpeg = EncodeJpeg(SmoothPixels(3, 8, 8));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_CONTAINS(DecodeError(jpeg), "is an image of 65500 x 65500, expected at most 67108864");
}

TEST(ImageDecoder, ReusesItsMemoryForImagesOfOtherSizes) {
  ImageDecoder decoder(ImageColor::kNative);
  for (int size : {9, 3, 20}) {
    const Image color = SmoothPixels(3, size, size + 1), gray = SmoothPixels(1, size + 2, size);
    ExpectImage(decoder.Decode(EncodePng(color, PngKind())), 3, size, size + 1, Planes(color));
    ExpectImage(decoder.Decode(EncodePng(gray, {PNG_COLOR_TYPE_GRAY})), 1, size + 2, size,
                gray.values);
  }
}

}  // namespace
}  // namespace millrace
