#include "data/datum_view.h"

#include "proto/caffe.pb.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::string Packed(const std::vector<float>& floats) {
  std::string bytes = "\x32";  // field 6, length-delimited
  bytes += static_cast<char>(floats.size() * sizeof(float));
  return bytes.append(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
}

std::string OneByOne(const std::vector<float>& floats) {
  std::string bytes;
  for (const float& value : floats) {
    bytes += "\x35";  // field 6, four bytes
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

std::vector<float> FloatsOf(const DatumView& view) {
  std::vector<float> floats(view.float_count);
  CopyFloats(view, floats.data());
  return floats;
}

TEST(DatumView, ShowsWhatProtobufWrote) {
  caffe::Datum datum = test::ByteDatum(-5, 3, 4, 5);
  const std::string bytes = datum.SerializeAsString();
  DatumView view;
  ASSERT_TRUE(ParseDatum(bytes, &view));
  EXPECT_EQ(view.channels, 3);
  EXPECT_EQ(view.height, 4);
  EXPECT_EQ(view.width, 5);
  EXPECT_EQ(view.label, -5);
  EXPECT_FALSE(view.encoded);
  EXPECT_EQ(view.data, datum.data());
  EXPECT_GE(view.data.data(), bytes.data());  // a view, not a copy
  EXPECT_LE(view.data.data() + view.data.size(), bytes.data() + bytes.size());
  EXPECT_NO_THROW(CheckDatum(view));
}

TEST(DatumView, ReadsFloatsPackedOneByOneAndMixed) {
  const std::string forms[] = {OneByOne({1, 2, 3, 4}), Packed({1, 2, 3, 4}),
                               Packed({1, 2}) + OneByOne({3}) + Packed({}) + Packed({4})};
  for (const std::string& bytes : forms) {
    DatumView view;
    ASSERT_TRUE(ParseDatum(bytes, &view));
    EXPECT_EQ(FloatsOf(view), std::vector<float>({1, 2, 3, 4}));
    caffe::Datum datum;
    ASSERT_TRUE(datum.ParseFromString(bytes));
    EXPECT_EQ(datum.float_data_size(), 4);
  }
}

TEST(DatumView, ReadsAnEmptyRunOfFloats) {
  const std::string bytes = Packed({});
  DatumView view;
  ASSERT_TRUE(ParseDatum(bytes, &view));
  EXPECT_EQ(view.float_count, 0u);
  CopyFloats(view, nullptr);
  EXPECT_CONTAINS(test::ErrorOf([&] { ReadDatum("db", "key", bytes); }), "has 0 channels");
}

TEST(DatumView, KeepsTheLastOfRepeatedFieldsAndPassesOverUnknownOnes) {
  std::string bytes = test::ByteDatum(1).SerializeAsString();
  bytes += "\x28\x07";          // label 7
  bytes += "\x4a\x03xyz";       // field 9, three bytes
  bytes += "\x53\x08\x01\x54";  // field 10, a group
  bytes +=
      "\x59"
      "12345678";  // field 11, eight bytes
  DatumView view;
  ASSERT_TRUE(ParseDatum(bytes, &view));
  EXPECT_EQ(view.label, 7);
  EXPECT_NO_THROW(CheckDatum(view));
}

TEST(DatumView, AsksNoSizesOfEncodedImages) {
  const std::string bytes = test::EncodedDatum(6, "file").SerializeAsString();
  const DatumView view = ReadDatum("db", "key", bytes);
  EXPECT_TRUE(view.encoded);
  EXPECT_EQ(view.data, "file");
  EXPECT_EQ(view.label, 6);
}

TEST(DatumView, RefusesEveryTruncationThatCutsAField) {
  caffe::Datum datum = test::ByteDatum(300, 1, 2, 3);
  datum.add_float_data(1.5f);
  const std::string whole = datum.SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    // An exact-size copy, so that a sanitizer detects any read beyond it.
    const std::vector<char> cut(whole.begin(), whole.begin() + size);
    DatumView view;
    caffe::Datum reference;
    EXPECT_EQ(ParseDatum({cut.data(), size}, &view),
              reference.ParsePartialFromArray(cut.data(), static_cast<int>(size)))
        << size;
  }
}

TEST(DatumView, SaysInOneLineWhatIsWrongWithARecord) {
  const auto error = [](const std::string& bytes, const std::string& key = "00000012") {
    return test::ErrorOf([&] { ReadDatum("some/db", key, bytes); });
  };
  EXPECT_EQ(error("not a datum"), "some/db: record '00000012': is not a Datum");
  EXPECT_CONTAINS(error(""), "record '00000012': has 0 channels of 0 x 0");
  EXPECT_CONTAINS(error(test::EncodedDatum(1, "").SerializeAsString()),
                  "some/db: record '00000012': is marked as an encoded image but holds no bytes");
  caffe::Datum datum = test::ByteDatum(1, 3, 4, 5);
  datum.mutable_data()->pop_back();
  EXPECT_CONTAINS(error(datum.SerializeAsString()), "holds 59 bytes, expected 3 x 4 x 5");
  datum.set_height(-1);
  EXPECT_CONTAINS(error(datum.SerializeAsString()), "has 3 channels of -1 x 5");
  datum.Clear();
  datum.set_channels(1), datum.set_height(1), datum.set_width(2);
  datum.add_float_data(1);
  EXPECT_CONTAINS(error(datum.SerializeAsString()), "holds 1 floats, expected 1 x 1 x 2");
  datum.set_channels(INT32_MAX), datum.set_height(INT32_MAX), datum.set_width(INT32_MAX);
  EXPECT_CONTAINS(error(datum.SerializeAsString()), "holds 1 floats, expected 2147483647 x");
  EXPECT_EQ(error("?", std::string("a\nb\0c", 5)),
            "some/db: record 'a\\x0ab\\x00c': is not a Datum");
  EXPECT_LT(error("?", std::string(5000, 'k')).size(), 1100u);
}

}  // namespace
}  // namespace millrace
