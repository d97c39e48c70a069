#include "data/images/image_list.h"

#include <filesystem>

#include "data/datum_view.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::string ListError(const std::string& text) {
  return test::ErrorOf([&] { ParseImageList(text, "list.txt"); });
}

TEST(ImageList, SeparatesTheLabelAtTheLastSpace) {
  const auto images = ParseImageList("a.jpg 3\nwith some words.png -7\r\n\n  \nlast 0  ", "l");
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[0].name, "a.jpg");
  EXPECT_EQ(images[0].label, 3);
  EXPECT_EQ(images[1].name, "with some words.png");
  EXPECT_EQ(images[1].label, -7);
  EXPECT_EQ(images[2].name, "last");
  EXPECT_EQ(images[2].label, 0);
}

TEST(ImageList, NamesTheLineWithoutALabel) {
  EXPECT_EQ(ListError("a.jpg 3\n\nb.jpg\n"),
            "list.txt:3: 'b.jpg': expected the name of an image, a space and a label (an integer)");
  EXPECT_EQ(ListError("a.jpg\t3"),
            "list.txt:1: 'a.jpg\\x093': expected the name of an image, a space, not a tab, and a "
            "label (an integer)");
  EXPECT_CONTAINS(ListError("a.jpg x"), "list.txt:1: 'a.jpg x'");
  EXPECT_CONTAINS(ListError("a.jpg 3.5x"), "list.txt:1: ");
  EXPECT_CONTAINS(ListError("a.jpg 99999999999"), "list.txt:1: ");
  EXPECT_CONTAINS(ListError(" 3"), "list.txt:1: ");
  EXPECT_EQ(ListError(" \n\n"), "list.txt: lists no images");
  EXPECT_EQ(ListError(""), "list.txt: lists no images");
}

TEST(ImageList, SkipsAByteOrderMark) {
  EXPECT_EQ(ParseImageList("\xef\xbb\xbf"
                           "a.jpg 3",
                           "l")[0]
                .name,
            "a.jpg");
}

TEST(ImageListSource, GivesEachFileAsAnEncodedDatum) {
  const test::TempDir folder;
  test::WriteFile(folder / "one", "bytes of one");
  test::WriteFile(folder / "two words", "2");
  test::WriteFile(folder / "empty", "");
  test::WriteFile(folder / "list", "one 5\ntwo words 6\nnone 1\nempty 2\n");
  ImageListSource source(folder / "list", folder / "");
  EXPECT_EQ(source.size(), 4u);
  EXPECT_EQ(source.path(), folder / "list");
  const auto reader = source.MakeReader(true);
  const RecordView two = reader->At(1), one = reader->At(0);
  EXPECT_EQ(two.key, "two words");
  const DatumView datum = ReadDatum("list", one.key, one.value);
  EXPECT_TRUE(datum.encoded);
  EXPECT_EQ(datum.data, "bytes of one");
  EXPECT_EQ(datum.label, 5);
  EXPECT_EQ(ReadDatum("list", two.key, two.value).label, 6);
  EXPECT_EQ(test::ErrorOf([&] { reader->At(2); }),
            folder / "list: " + folder / "none: No such file or directory");
  std::string root = folder / "";
  root.pop_back();
  ImageListSource without(folder / "list", root);
  EXPECT_EQ(test::ErrorOf([&] { without.MakeReader(true)->At(0); }),
            folder / "list: " + root +
                "one: No such file or directory; names follow the root folder '" + root +
                "' as it is, without a '/'");
  EXPECT_CONTAINS(test::ErrorOf([&] { reader->At(3); }), "empty: is empty, expected an image");
  EXPECT_CONTAINS(test::ErrorOf([&] { ImageListSource(folder / "gone", ""); }), "gone: No such");
}

}  // namespace
}  // namespace millrace
