#include "nn/detection_scores.h"

#include "test/support/support.h"

namespace millrace::test {
namespace {

// Falling scores; precisions 1, 1/2, 2/3, 1/2, 3/5 at recalls 1/4, 1/4, 2/4, 2/4, 3/4.
const std::vector<ScoredDetection> kDetections = {
    {0.9f, true}, {0.8f, false}, {0.7f, true}, {0.6f, false}, {0.5f, true}};

TEST(AveragePrecision, OfElevenPoints) {
  // Recalls 0, 0.1, 0.2: 1; 0.3 to 0.5: 2/3; 0.6, 0.7: 3/5; above: 0.
  EXPECT_NEAR(AveragePrecision(kDetections, 4, ApVersion::k11Point),
              (3 + 3 * 2 / 3.0 + 2 * 0.6) / 11, 1e-6);
}

TEST(AveragePrecision, OfTheIntegral) {
  EXPECT_NEAR(AveragePrecision(kDetections, 4, ApVersion::kIntegral), (1 + 2 / 3.0 + 0.6) / 4,
              1e-6);
}

TEST(AveragePrecision, OfTheIntegralOfTheLargestPrecisions) {
  // A step of the recall counts with the largest precision from the detection before it on.
  EXPECT_NEAR(AveragePrecision(kDetections, 4, ApVersion::kMaxIntegral), (1 + 2 / 3.0 + 0.6) / 4,
              1e-6);
  const std::vector<ScoredDetection> rising = {{0.9f, false}, {0.8f, true}, {0.7f, true}};
  EXPECT_NEAR(AveragePrecision(rising, 2, ApVersion::kMaxIntegral), 2 / 3.0, 1e-6);
  EXPECT_NEAR(AveragePrecision(rising, 2, ApVersion::kIntegral), (0.5 + 2 / 3.0) / 2, 1e-6);
}

TEST(AveragePrecision, SortsByScore) {
  const std::vector<ScoredDetection> mixed = {kDetections[3], kDetections[0], kDetections[4],
                                              kDetections[2], kDetections[1]};
  for (const auto version : {ApVersion::k11Point, ApVersion::kMaxIntegral, ApVersion::kIntegral}) {
    EXPECT_EQ(AveragePrecision(mixed, 4, version), AveragePrecision(kDetections, 4, version));
    EXPECT_NEAR(AveragePrecision({{{1, true}}}, 1, version), 1, 1e-6);
    EXPECT_EQ(AveragePrecision({{{1, false}}}, 3, version), 0);
    EXPECT_EQ(AveragePrecision({}, 3, version), 0);
    EXPECT_EQ(AveragePrecision(kDetections, 0, version), 0);
  }
}

TEST(AveragePrecision, HasThreeVersions) {
  EXPECT_EQ(ApVersionOf("11point"), ApVersion::k11Point);
  EXPECT_EQ(ApVersionOf("MaxIntegral"), ApVersion::kMaxIntegral);
  EXPECT_EQ(ApVersionOf("Integral"), ApVersion::kIntegral);
  EXPECT_CONTAINS(ErrorOf([] { ApVersionOf("x"); }), "\"x\" given, expected \"11point\"");
}

TEST(DetectionScores, AreOfAllBatches) {
  const std::vector<float> first = {-1, 1, 2,    -1, -1,  //
                                    -1, 2, 1,    -1, -1,  //
                                    -1, 3, 1,    -1, -1,  //
                                    0,  1, 0.9f, 1,  0,   //
                                    0,  2, 0.8f, 0,  1};
  const std::vector<float> second = {-1, 1, 1,    -1, -1,  //
                                     -1, 2, 0,    -1, -1,  //
                                     -1, 3, 0,    -1, -1,  //
                                     0,  1, 0.5f, 0,  0,   // of a difficult box
                                     1,  1, 0.4f, 1,  0,   //
                                     1,  2, 0.9f, 1,  0};
  DetectionScores scores, more;
  scores.Add(first);
  more.Add(second);
  scores.Add(more);
  const auto classes = scores.Classes(ApVersion::kIntegral);
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].label, 1);
  EXPECT_NEAR(*classes[0].precision, 2 / 3.0, 1e-6);  // two of three, none wrong
  EXPECT_NEAR(*classes[1].precision, 1, 1e-6);        // the wrong one has the lower score
  EXPECT_FALSE(classes[2].precision.has_value());
  EXPECT_NEAR(DetectionScores::Mean(classes), (2 / 3.0 + 1) / 3, 1e-6);
  EXPECT_EQ(DetectionScores::Mean({}), 0);
}

}  // namespace
}  // namespace millrace::test
