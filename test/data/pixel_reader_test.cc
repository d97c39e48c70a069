#include "data/images/pixel_reader.h"

#include "proto/parse.h"
#include "test/data/test_db.h"
#include "test/support/encode_images.h"
#include "test/support/log_watch.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::string EncodedRecord(const std::string& file) {
  return test::EncodedDatum(4, file).SerializeAsString();
}

std::string ReadError(PixelReader* reader, const std::string& record) {
  return test::ErrorOf([&] { reader->Read("some/db", "00000012", record); });
}

TEST(PixelReader, ShowsRawPixelsWhereTheyLie) {
  const std::string record = test::ByteDatum(3).SerializeAsString();
  PixelReader reader;
  const DatumView datum = reader.Read("db", "key", record);
  EXPECT_GE(datum.data.data(), record.data());
  EXPECT_LT(datum.data.data(), record.data() + record.size());
  EXPECT_EQ(datum.label, 3);
}

TEST(PixelReader, DecodesImagesAndTakesTheirSizeNotTheDatums) {
  const Image pixels = test::SmoothPixels(3, 5, 4);
  caffe::Datum datum = test::EncodedDatum(4, test::EncodePng(pixels, {}));
  datum.set_channels(1), datum.set_height(100), datum.set_width(-1);
  const std::string record = datum.SerializeAsString();
  PixelReader reader;
  const DatumView view = reader.Read("db", "key", record);
  EXPECT_FALSE(view.encoded);
  EXPECT_EQ(view.channels, 3);
  EXPECT_EQ(view.height, 5);
  EXPECT_EQ(view.width, 4);
  EXPECT_EQ(view.label, 4);
  ASSERT_EQ(view.data.size(), 60u);
  EXPECT_EQ(static_cast<uint8_t>(view.data[0]), pixels.values[2]);  // blue comes first
  EXPECT_NO_THROW(CheckDatum(view));
}

TEST(PixelReader, MakesColourOrGreyOfImagesAsTheFieldsSay) {
  const std::string color = EncodedRecord(test::EncodeJpeg(test::SmoothPixels(3, 8, 8)));
  const std::string gray = EncodedRecord(test::EncodeJpeg(test::SmoothPixels(1, 8, 8)));
  caffe::TransformationParameter param;
  PixelReader native(ImageReading::Of(param));
  EXPECT_EQ(native.Read("db", "key", color).channels, 3);
  EXPECT_EQ(native.Read("db", "key", gray).channels, 1);
  param.set_force_color(true);
  PixelReader all_color(ImageReading::Of(param));
  EXPECT_EQ(all_color.Read("db", "key", color).channels, 3);
  EXPECT_EQ(all_color.Read("db", "key", gray).channels, 3);
  param.set_force_gray(true);
  EXPECT_EQ(test::ErrorOf([&] { ImageReading::Of(param); }),
            "is given together with force_color, expected one of them");
  param.clear_force_color();
  PixelReader all_gray(ImageReading::Of(param));
  EXPECT_EQ(all_gray.Read("db", "key", color).channels, 1);
  EXPECT_EQ(all_gray.Read("db", "key", gray).channels, 1);
}

TEST(PixelReader, LeavesRawPixelsAsTheyAreWhateverIsForced) {
  const std::string record = test::ByteDatum(1, 3, 4, 5).SerializeAsString();
  PixelReader reader({ImageColor::kGray, 2, 2});
  const DatumView datum = reader.Read("db", "key", record);
  EXPECT_EQ(datum.channels, 3);
  EXPECT_EQ(datum.height, 4);
  EXPECT_EQ(datum.data, test::ByteDatum(1, 3, 4, 5).data());
}

TEST(PixelReader, ResizesEncodedImages) {
  const Image pixels = test::SmoothPixels(3, 7, 9);
  PixelReader plain, small({ImageColor::kNative, 3, 4});
  const std::string record = EncodedRecord(test::EncodePng(pixels, {}));
  const DatumView whole = plain.Read("db", "key", record);
  Image in{3, 7, 9, {whole.data.begin(), whole.data.end()}}, expected;
  Resizer().Resize(in, 3, 4, &expected);
  const DatumView datum = small.Read("db", "key", record);
  EXPECT_EQ(datum.height, 3);
  EXPECT_EQ(datum.width, 4);
  EXPECT_EQ(std::vector<uint8_t>(datum.data.begin(), datum.data.end()), expected.values);
}

TEST(PixelReader, NamesRecordsThatEndEarly) {
  PixelReader reader;
  test::LogWatch log;
  const std::string jpeg = test::EncodeJpeg(test::SmoothPixels(1, 64, 64));
  const std::string record = EncodedRecord(jpeg.substr(0, jpeg.size() - 60));
  EXPECT_EQ(reader.Read("some/db", "00000012", record).height, 64);
  EXPECT_TRUE(log.Saw("some/db: record '00000012': is a JPEG that ends early"));
}

TEST(PixelReader, NamesDatabaseAndKeyOfWhatCannotBeDecoded) {
  PixelReader reader;
  const std::string name = "some/db: record '00000012': ";
  const std::string jpeg = test::EncodeJpeg(test::SmoothPixels(3, 16, 16));
  EXPECT_CONTAINS(ReadError(&reader, EncodedRecord(jpeg.substr(0, jpeg.find("\xff\xda")))),
                  name + "is a damaged JPEG: ");
  const std::string unknown = ReadError(&reader, EncodedRecord("GIF89a"));
  EXPECT_CONTAINS(unknown, name);
  EXPECT_CONTAINS(unknown, "neither a JPEG nor a PNG file");
  EXPECT_EQ(ReadError(&reader, EncodedRecord("")),
            name + "is marked as an encoded image but holds no bytes");
  EXPECT_EQ(ReadError(&reader, "?"), name + "is not a Datum");
}

}  // namespace
}  // namespace millrace
