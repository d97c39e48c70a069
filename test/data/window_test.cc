// Window files, and where their windows go.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "data/window/window_file.h"
#include "test/support/support.h"

namespace millrace {
namespace {

const char kText[] =
    "# 0\nimages/a.jpg\n3\n20\n30\n3\n"
    "7 0.9 1 2 11 12\n2 0.3 0 0 29 19\n4 0.1 5 5 6 6\n"
    "# 1\nimages/b.jpg\n3\n8\n9\n1\n5 0.5 0 0 8 7\n";

TEST(WindowFile, SortsWindowsByTheirOverlap) {
  const WindowFile file = ParseWindowFile(kText, "w", 0.5f, 0.2f);
  EXPECT_EQ(file.images, std::vector<std::string>({"images/a.jpg", "images/b.jpg"}));
  ASSERT_EQ(file.objects.size(), 2u);
  EXPECT_EQ(file.objects[0].label, 7);
  EXPECT_EQ(file.objects[0].x1, 1);
  EXPECT_EQ(file.objects[0].y1, 2);
  EXPECT_EQ(file.objects[0].x2, 11);
  EXPECT_EQ(file.objects[0].y2, 12);
  EXPECT_EQ(file.objects[1].image, 1u);
  EXPECT_EQ(file.objects[1].label, 5);  // an overlap of exactly the threshold
  ASSERT_EQ(file.background.size(), 1u);
  EXPECT_EQ(file.background[0].label, 0);  // whatever its class
  EXPECT_EQ(file.background[0].x2, 6);
}

TEST(WindowFile, NamesTheLineThatIsWrong) {
  const auto error = [](const std::string& from, const std::string& to) {
    std::string text = kText;
    text.replace(text.find(from), from.size(), to);
    return test::ErrorOf([&] { ParseWindowFile(text, "w.txt", 0.5f, 0.5f); });
  };
  EXPECT_CONTAINS(error("# 0", "0"), "w.txt:1: '0': expected '#' before image 0");
  EXPECT_CONTAINS(error("# 1", "# 2"), "w.txt:10: '2': expected the image's number from 1 to 1");
  EXPECT_CONTAINS(error("20\n", "x\n"), "w.txt:4: 'x': expected the height");
  EXPECT_CONTAINS(error("7 0.9", "7 high"), "w.txt:7: 'high': expected an overlap");
  EXPECT_CONTAINS(error("7 0.9 1", "7 0.9 1.5"), "w.txt:7: '1.5': expected a corner");
  EXPECT_CONTAINS(error("30\n3\n", "30\n4\n"), "w.txt:10: '#': expected a class");
  EXPECT_CONTAINS(error("7 0.9", "0 0.9"), "w.txt: image 0: window 0 overlaps with an object");
  EXPECT_CONTAINS(error("0 0 8 7", "0 0 8"), "w.txt: ends where a corner of a window is expected");
  EXPECT_CONTAINS(test::ErrorOf([] { ParseWindowFile(" \n", "w.txt", 0.5f, 0.5f); }),
                  "w.txt: holds no images");
}

WindowPlace Corners(int x1, int y1, int x2, int y2) {
  WindowPlace place;
  place.x1 = x1, place.y1 = y1, place.x2 = x2, place.y2 = y2;
  return place;
}

TEST(WindowPlace, WarpsTheWindowToTheWholeOutput) {
  const WindowPlace place = PlaceWindow({10, 0, false}, false, 50, 40, Corners(3, 4, 8, 20));
  EXPECT_EQ(place.x1, 3);
  EXPECT_EQ(place.y2, 20);
  EXPECT_EQ(place.height, 10);
  EXPECT_EQ(place.width, 10);
  EXPECT_EQ(place.pad_x, 0);
  EXPECT_EQ(place.pad_y, 0);
}

// A window of 8 x 8 with a padding of 1 in 10 x 10 grows by 10 / 8 to 10 x 10 about its centre; the
// corners are inclusive, so that it covers 11 pixels.
TEST(WindowPlace, GrowsByThePaddingAboutTheCentre) {
  const WindowPlace place = PlaceWindow({10, 1, false}, false, 50, 50, Corners(20, 30, 27, 37));
  EXPECT_EQ(place.x1, 19);
  EXPECT_EQ(place.x2, 29);
  EXPECT_EQ(place.y1, 29);
  EXPECT_EQ(place.y2, 39);
  EXPECT_EQ(place.width, 10);
  EXPECT_EQ(place.height, 10);
}

// At the left edge, 5 of 15 columns are outside: 3 of 10 columns of the output.
TEST(WindowPlace, LeavesRoomForWhatIsOutsideOfTheImageAndMirrorsIt) {
  const WindowCrop crop{10, 2, false};
  const WindowPlace plain = PlaceWindow(crop, false, 50, 50, Corners(-2, 20, 5, 27));
  EXPECT_EQ(plain.x1, 0);
  EXPECT_EQ(plain.x2, 9);
  EXPECT_EQ(plain.pad_x, 3);
  EXPECT_EQ(plain.width, 7);
  EXPECT_EQ(plain.pad_y, 0);
  EXPECT_EQ(plain.height, 10);
  const WindowPlace mirrored = PlaceWindow(crop, true, 50, 50, Corners(-2, 20, 5, 27));
  EXPECT_EQ(mirrored.pad_x, 0);
  EXPECT_EQ(mirrored.width, 7);
  const WindowPlace right = PlaceWindow(crop, true, 50, 50, Corners(44, 20, 51, 27));
  EXPECT_EQ(right.x2, 49);
  EXPECT_GT(right.pad_x, 0);
}

TEST(WindowPlace, SquaresGrowToTheLongerSide) {
  const WindowPlace place = PlaceWindow({8, 0, true}, false, 60, 60, Corners(20, 20, 29, 23));
  EXPECT_EQ(place.x1, 20);
  EXPECT_EQ(place.x2, 30);
  EXPECT_EQ(place.y1, 17);
  EXPECT_EQ(place.y2, 27);
}

// For windows that touch the image: the rectangle is inside of it, and fits in the output.
TEST(WindowPlace, NeverLeavesTheImageOrTheOutput) {
  Rng rng(test::Seed(), {1});
  int placed = 0;
  for (int round = 0; round < 5000; ++round) {
    const int height = 1 + static_cast<int>(rng.Below(30)),
              width = 1 + static_cast<int>(rng.Below(30));
    const int size = 1 + static_cast<int>(rng.Below(20));
    const WindowCrop crop{size, static_cast<int>(rng.Below((size + 1) / 2)), rng.Below(2) == 0};
    const auto corner = [&](int side) { return static_cast<int>(rng.Below(side + 20)) - 10; };
    const WindowPlace window =
        Corners(corner(width), corner(height), corner(width), corner(height));
    try {
      const WindowPlace place = PlaceWindow(crop, rng.Below(2) == 0, height, width, window);
      ++placed;
      ASSERT_TRUE(0 <= place.x1 && place.x1 <= place.x2 && place.x2 < width);
      ASSERT_TRUE(0 <= place.y1 && place.y1 <= place.y2 && place.y2 < height);
      ASSERT_TRUE(place.pad_x >= 0 && place.width > 0 && place.pad_x + place.width <= size);
      ASSERT_TRUE(place.pad_y >= 0 && place.height > 0 && place.pad_y + place.height <= size);
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("is empty or not in the image"), std::string::npos);
    }
  }
  EXPECT_GT(placed, 200);
}

TEST(WindowPlace, RefusesEmptyWindowsAndThoseOutsideOfTheImage) {
  const auto error = [](const WindowPlace& window, int pad) {
    return test::ErrorOf([&] { PlaceWindow({10, pad, false}, false, 20, 30, window); });
  };
  EXPECT_CONTAINS(error(Corners(5, 5, 4, 9), 0),
                  "corners (5, 5) and (4, 9), which is empty or not");
  EXPECT_CONTAINS(error(Corners(0, 0, 30, 5), 0), "in the image of 20 x 30");
  EXPECT_CONTAINS(error(Corners(60, 0, 70, 5), 2), "is empty or not in the image");
  constexpr int kMin = std::numeric_limits<int>::min(), kMax = std::numeric_limits<int>::max();
  EXPECT_CONTAINS(error(Corners(kMin, kMin, kMin, kMin), 2), "is empty or not in the image");
  EXPECT_CONTAINS(error(Corners(kMax, 0, kMin, 5), 2), "is empty or not in the image");
  EXPECT_CONTAINS(error(Corners(kMax, kMax, kMax, kMax), 2), "is empty or not in the image");
}

}  // namespace
}  // namespace millrace
