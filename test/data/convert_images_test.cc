#include "data/images/convert_images.h"

#include <filesystem>

#include "base/files/file.h"
#include "data/datum_view.h"
#include "data/images/image_encoder.h"
#include "data/images/pixel_reader.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace {
namespace {

struct Record {
  std::string key;
  DatumView datum;
  RecordView view;
};

// a.png and "sub/b c.jpg" of 3 x 6 x 8, gray.jpg of 1 x 6 x 8.
class ConvertImagesTest : public testing::Test {
 protected:
  ConvertImagesTest() {
    std::filesystem::create_directory(folder_ / "in");
    std::filesystem::create_directory(folder_ / "in/sub");
    Write("a.png", test::EncodePng(test::SmoothPixels(3, 6, 8, 1), {}));
    Write("sub/b c.jpg", test::EncodeJpeg(test::SmoothPixels(3, 6, 8, 2)));
    Write("gray.jpg", test::EncodeJpeg(test::SmoothPixels(1, 6, 8, 3)));
    List("a.png 3\nsub/b c.jpg 4\ngray.jpg 5\n");
  }
  void Write(const std::string& name, const std::string& bytes) {
    test::WriteFile(folder_ / "in/" + name, bytes);
  }
  void List(const std::string& text) { test::WriteFile(folder_ / "list", text); }
  ConvertImagesResult Convert(const ConvertImagesOptions& options, const std::string& to = "db") {
    return ConvertImages(folder_ / "in/", folder_ / "list", folder_ / to, options);
  }
  std::string ConvertError(const ConvertImagesOptions& options) {
    const std::string error = test::ErrorOf([&] { Convert(options, "bad"); });
    EXPECT_FALSE(FileExists(folder_ / "bad"));
    return error;
  }
  std::vector<Record> Records(const std::string& name = "db") {
    database_ = OpenDatabase(folder_ / name);
    const auto reader = database_->MakeReader(false);
    std::vector<Record> records;
    for (uint64_t i = 0; i < database_->size(); ++i) {
      const RecordView view = reader->At(i);
      records.push_back({std::string(view.key), ReadDatum("db", view.key, view.value), view});
    }
    return records;
  }
  std::string File(const std::string& name) { return ReadFile(folder_ / "in/" + name); }

  test::TempDir folder_;
  std::shared_ptr<DataSource> database_;
};

TEST_F(ConvertImagesTest, StoresPixelsInTheOrderOfTheList) {
  for (const DatabaseKind kind : {DatabaseKind::kLmdb, DatabaseKind::kLevelDb}) {
    const std::string name = NameOf(kind);
    ConvertImagesOptions options;
    options.kind = kind;
    const ConvertImagesResult result = Convert(options, name);
    EXPECT_EQ(result.converted, 3u);
    EXPECT_EQ(result.skipped, 0u);
    EXPECT_EQ(FindDatabaseKind(folder_ / name), kind);
    const std::vector<Record> records = Records(name);
    ASSERT_EQ(records.size(), 3u);
    EXPECT_EQ(records[0].key, "00000000_a.png");
    EXPECT_EQ(records[1].key, "00000001_sub/b c.jpg");
    EXPECT_EQ(records[2].datum.label, 5);
    for (const Record& record : records) {
      EXPECT_FALSE(record.datum.encoded);
      EXPECT_EQ(record.datum.channels, 3);  // also of the grey image
      EXPECT_EQ(record.datum.height, 6);
      EXPECT_EQ(record.datum.width, 8);
    }
    const Image pixels = test::SmoothPixels(3, 6, 8, 1);
    EXPECT_EQ(static_cast<uint8_t>(records[0].datum.data[0]), pixels.values[2]);
  }
}

TEST_F(ConvertImagesTest, GivesTheSameBytesWhateverTheNumberOfThreads) {
  std::string list;
  for (int i = 0; i < 700; ++i) list += i % 3 == 0 ? "a.png 1\n" : "sub/b c.jpg 2\n";
  List(list);
  ConvertImagesOptions options;
  options.shuffle = true;
  Convert(options, "one");
  options.threads = 4;
  Convert(options, "four");
  EXPECT_EQ(ReadFile(folder_ / "one/data.mdb"), ReadFile(folder_ / "four/data.mdb"));
  options.seed = 2;
  Convert(options, "other");
  EXPECT_NE(ReadFile(folder_ / "one/data.mdb"), ReadFile(folder_ / "other/data.mdb"));
}

TEST_F(ConvertImagesTest, ResizesAndMakesGrey) {
  ConvertImagesOptions options;
  options.gray = true;
  options.resize_height = 4;
  options.resize_width = 3;
  options.check_size = true;
  Convert(options);
  for (const Record& record : Records()) {
    EXPECT_EQ(record.datum.channels, 1);
    EXPECT_EQ(record.datum.height, 4);
    EXPECT_EQ(record.datum.width, 3);
  }
}

TEST_F(ConvertImagesTest, StoresFilesUnchangedUnlessTheyMustBeEncodedAnew) {
  ConvertImagesOptions options;
  options.encoded = true;
  Convert(options, "unchanged");
  const std::vector<Record> unchanged = Records("unchanged");
  EXPECT_TRUE(unchanged[0].datum.encoded);
  EXPECT_EQ(unchanged[0].datum.data, File("a.png"));
  EXPECT_EQ(unchanged[1].datum.data, File("sub/b c.jpg"));
  EXPECT_EQ(unchanged[2].datum.data, File("gray.jpg"));

  options.encoded = false;
  options.encode_type = "png";  // implies encoded
  Convert(options, "png");
  const std::vector<Record> png = Records("png");
  EXPECT_EQ(png[0].datum.data, File("a.png"));
  PixelReader reader;
  const DatumView b = reader.Read("db", "b", png[1].view.value);
  ImageDecoder decoder(ImageColor::kColor);
  EXPECT_EQ(b.channels, 3);
  EXPECT_EQ(std::vector<uint8_t>(b.data.begin(), b.data.end()),
            decoder.Decode(File("sub/b c.jpg")).values);

  options.encode_type = "jpg";
  options.resize_height = options.resize_width = 16;
  Convert(options, "jpg");
  for (const Record& record : Records("jpg")) {
    EXPECT_TRUE(record.datum.data.starts_with("\xff\xd8\xff"));
    EXPECT_EQ(reader.Read("db", "x", record.view.value).height, 16);
  }
}

TEST_F(ConvertImagesTest, SkipsAndCountsImagesThatCannotBeUsedUnlessStrict) {
  Write("bad.jpg", File("sub/b c.jpg").substr(0, 300));
  List("bad.jpg 1\na.png 2\nnone.png 3\ngray.jpg 4\n");
  ConvertImagesOptions options;
  const ConvertImagesResult result = Convert(options);
  EXPECT_EQ(result.converted, 2u);
  EXPECT_EQ(result.skipped, 2u);
  const std::vector<Record> records = Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].key, "00000001_a.png");  // with the number of the line
  options.strict = true;
  EXPECT_CONTAINS(ConvertError(options), folder_ / "in/bad.jpg: is a damaged JPEG: ");
  List("none.png 3\n");
  options.strict = false;
  EXPECT_EQ(ConvertError(options), folder_ / "list: none of its images can be used");
}

TEST_F(ConvertImagesTest, SaysThatTheRootFolderLacksItsSlash) {
  const std::string error =
      test::ErrorOf([&] { ConvertImages(folder_ / "in", folder_ / "list", folder_ / "bad", {}); });
  EXPECT_EQ(error,
            folder_ / "list: none of its images can be used; names follow the root folder '" +
                folder_ / "in' as it is, without a '/'");
}

// LMDB's keys have at most 511 bytes.
TEST_F(ConvertImagesTest, CutsNamesThatAreTooLongForKeys) {
  const std::string part(200, 'd'), name = part + "/" + part + "/" + part + "/a.png";
  std::filesystem::create_directories(folder_ / "in/" + part + "/" + part + "/" + part);
  Write(name, File("a.png"));
  List(name + " 3\na.png 4\n");
  EXPECT_EQ(Convert({}).converted, 2u);
  EXPECT_EQ(Records()[0].key, ("00000000_" + name).substr(0, 511));
  EXPECT_EQ(Records()[0].datum.label, 3);
}

TEST_F(ConvertImagesTest, KeepsFilesOfOtherFormatsOrMakesThemPngs) {
  Write("a.bmp", test::EncodeBmp(test::SmoothPixels(3, 6, 8, 1)));
  List("a.bmp 3\na.png 3\n");
  ConvertImagesOptions options;
  if (Convert(options, "pixels").skipped > 0) GTEST_SKIP() << "built without OpenCV";
  const std::vector<Record> pixels = Records("pixels");
  EXPECT_EQ(pixels[0].datum.data, pixels[1].datum.data);
  options.encoded = true;
  Convert(options, "encoded");
  EXPECT_EQ(Records("encoded")[0].datum.data, File("a.bmp"));
  options.resize_height = options.resize_width = 4;
  Convert(options, "resized");
  EXPECT_TRUE(Records("resized")[0].datum.data.starts_with("\x89PNG"));
}

TEST_F(ConvertImagesTest, RefusesOtherSizesIfAskedAndBadOptions) {
  Write("small.png", test::EncodePng(test::SmoothPixels(3, 5, 8, 1), {}));
  List("a.png 1\nsmall.png 2\n");
  ConvertImagesOptions options;
  EXPECT_EQ(Convert(options).converted, 2u);
  options.check_size = true;
  EXPECT_EQ(ConvertError(options),
            folder_ / "in/small.png: is 3 x 5 x 8, expected 3 x 6 x 8 like the first image");
  options.resize_height = 4;
  EXPECT_CONTAINS(ConvertError(options), "--resize_height=4 and --resize_width=0: expected both");
  options.resize_height = 0;
  options.encode_type = "gif";
  EXPECT_CONTAINS(ConvertError(options), "--encode_type: 'gif' is no format");
  EXPECT_CONTAINS(test::ErrorOf([&] { Convert({}); }), "db: exists already");
}

TEST(ImageEncoder, KeepsThePixelsInPngAndNearlyInJpeg) {
  for (const int channels : {1, 3}) {
    Image image{channels, 9, 11, std::vector<uint8_t>(99 * channels)};
    for (int c = 0; c < channels; ++c) {
      for (int i = 0; i < 99; ++i) image.values[c * 99 + i] = static_cast<uint8_t>(40 * c + i);
    }
    ImageDecoder decoder(ImageColor::kNative);
    EXPECT_EQ(decoder.Decode(EncodeImage(image, ImageFormat::kPng)).values, image.values);
    const Image& jpeg = decoder.Decode(EncodeImage(image, ImageFormat::kJpeg));
    ASSERT_EQ(jpeg.values.size(), image.values.size());
    for (size_t i = 0; i < jpeg.values.size(); ++i) {
      EXPECT_NEAR(jpeg.values[i], image.values[i], 8);
    }
  }
  EXPECT_EQ(ParseImageFormat("JPEG"), ImageFormat::kJpeg);
  EXPECT_EQ(ParseImageFormat("Png"), ImageFormat::kPng);
}

}  // namespace
}  // namespace millrace
