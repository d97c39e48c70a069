// Images that OpenCV reads, and those that it need not read, against its own pixels.
#include "data/images/opencv_images.h"

#include "base/error.h"
#include "base/module.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::EncodeJpeg;
using test::EncodePng;
using test::SmoothPixels;

constexpr ImageColor kAllColors[] = {ImageColor::kNative, ImageColor::kColor, ImageColor::kGray};

bool HasOpenCv() { return LoadModule("opencv").empty(); }

// `rows` (H, W, C) with their channels in reverse order.
Image Reversed(Image rows) {
  for (size_t i = 0; rows.channels == 3 && i < rows.values.size(); i += 3) {
    std::swap(rows.values[i], rows.values[i + 2]);
  }
  return rows;
}

std::vector<uint8_t> Planes(const Image& rows) {
  std::vector<uint8_t> planes;
  for (int c = 0; c < rows.channels; ++c) {
    for (size_t i = c; i < rows.values.size(); i += rows.channels) {
      planes.push_back(rows.values[i]);
    }
  }
  return planes;
}

Image ByOpenCv(const std::string& file, ImageColor color) {
  Image image;
  DecodeWithOpenCv(file, color, &image);
  return image;
}

std::string DecodeError(const std::string& file, ImageColor color = ImageColor::kNative) {
  return test::ErrorOf([&] { ImageDecoder(color).Decode(file); });
}

void ExpectImage(const std::string& file, ImageColor color, const Image& rows) {
  const Image image = ImageDecoder(color).Decode(file);
  EXPECT_EQ(image.channels, rows.channels);
  EXPECT_EQ(image.height, rows.height);
  EXPECT_EQ(image.width, rows.width);
  EXPECT_EQ(image.values, Planes(rows));
}

class OpenCvImages : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasOpenCv()) GTEST_SKIP() << "OpenCV's image formats are not installed";
  }
};

TEST_F(OpenCvImages, OfTheseFormatsKeepEveryPixel) {
  const Image color = SmoothPixels(3, 7, 5), gray = SmoothPixels(1, 7, 5);
  for (const auto encode : {&test::EncodeBmp, &test::EncodePnm}) {
    ExpectImage(encode(color), ImageColor::kColor, Reversed(color));
    ExpectImage(encode(color), ImageColor::kNative, Reversed(color));
    ExpectImage(encode(gray), ImageColor::kGray, gray);
  }
  ExpectImage(test::EncodeTiff(color), ImageColor::kColor, Reversed(color));
  ExpectImage(test::EncodeTiff(gray), ImageColor::kNative, gray);
  ExpectImage(test::SmallWebp(), ImageColor::kColor, Reversed(SmoothPixels(3, 2, 3)));
  ExpectImage("P1\n3 2\n1 0 1\n0 1 1\n", ImageColor::kGray, {1, 2, 3, {0, 255, 0, 255, 0, 0}});
}

TEST_F(OpenCvImages, WithSixteenBitsKeepTheUpperEightWhereAColourIsForced) {
  const Image words{1, 1, 4, {0xff, 0x12, 0x01, 0xfe}};
  const std::string file = test::EncodeTiff(words, 16);
  ExpectImage(file, ImageColor::kGray, {1, 1, 2, {0x12, 0xfe}});
  EXPECT_EQ(DecodeError(file),
            "is a TIFF file of more than 8 bits a value, which is not supported; transform_param's "
            "force_color or force_gray reduces it to 8");
}

TEST_F(OpenCvImages, AreRefusedInOneLineIfDamaged) {
  for (const std::string& file :
       {test::EncodeBmp(SmoothPixels(3, 7, 5)), test::EncodePnm(SmoothPixels(3, 7, 5)),
        test::EncodeTiff(SmoothPixels(3, 7, 5)), test::SmallWebp()}) {
    const std::string error = DecodeError(file.substr(0, file.size() - 20), ImageColor::kColor);
    EXPECT_CONTAINS(error, " file that OpenCV cannot read: it is damaged, or of a rare kind");
  }
  for (const std::string& file : {std::string("GIF89a"), std::string(1000, 'x')}) {
    EXPECT_EQ(DecodeError(file),
              "is not an image: neither a JPEG nor a PNG file, nor one that OpenCV reads");
  }
}

// What our own decoders read has OpenCV's pixels, too.
TEST_F(OpenCvImages, AgreeWithTheOtherDecoders) {
  const std::string color = EncodeJpeg(SmoothPixels(3, 13, 21));
  std::vector<std::string> files = {color,
                                    EncodeJpeg(SmoothPixels(3, 13, 21), true),
                                    EncodeJpeg(SmoothPixels(1, 13, 21)),
                                    EncodeJpeg(SmoothPixels(4, 13, 21)),
                                    EncodePng(SmoothPixels(3, 6, 5), {2}),
                                    EncodePng(SmoothPixels(4, 6, 5), {6}),
                                    EncodePng(SmoothPixels(1, 6, 5), {0})};
  for (int orientation = 0; orientation <= 9; ++orientation) {
    files.push_back(test::WithOrientation(color, orientation, orientation % 2 == 0));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    for (const ImageColor asked : kAllColors) {
      SCOPED_TRACE(StrCat("file ", i, ", colour ", static_cast<int>(asked)));
      ExpectImage(files[i], asked, ByOpenCv(files[i], asked));
    }
  }
}

TEST(ImagesWithoutOpenCv, AreRefusedWithTheNameOfTheModule) {
  const std::string reason = LoadModule("opencv");
  if (reason.empty()) GTEST_SKIP() << "the module opencv is installed";
  EXPECT_EQ(DecodeError(test::EncodeBmp(SmoothPixels(3, 7, 5))),
            "is a BMP file; what reads other images than JPEG and PNG is in " + reason);
  EXPECT_EQ(DecodeError("GIF89a"),
            "is neither a JPEG nor a PNG file; what reads other images than JPEG and PNG is in " +
                reason);
}

}  // namespace
}  // namespace millrace
