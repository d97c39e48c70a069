// Parses plots as XML and checks their elements.
#include "metrics/plot.h"

#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"
#include "metrics/svg.h"
#include "test/metrics/rows.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::RunRow;
using test::TestRow;
using test::TrainRow;
using Tree = boost::property_tree::ptree;
using Strings = std::vector<std::string>;
using RunData = millrace::Run;  // inside a test, Run is a member of the test

const char* const kPanels[] = {"loss-time", "accuracy-time", "loss-iteration",
                               "accuracy-iteration"};

std::string Attribute(const Tree& element, const std::string& name) {
  return element.get<std::string>("<xmlattr>." + name, "");
}

class Figure {
 public:
  explicit Figure(const std::vector<RunData>& runs) : text_(PlotRuns(runs)) {
    std::istringstream stream(text_);
    boost::property_tree::read_xml(stream, document_);  // throws unless well-formed
  }

  const std::string& text() const { return text_; }
  double height() const { return std::stod(Attribute(document_.get_child("svg"), "height")); }
  double width() const { return std::stod(Attribute(document_.get_child("svg"), "width")); }

  // Elements of class `kind` inside the group `id` ("" for the whole document).
  std::vector<Tree> Find(const std::string& id, const std::string& kind) const {
    std::vector<Tree> found;
    Walk(document_, id.empty(), id, [&](const Tree& element) {
      if (Attribute(element, "class") == kind) found.push_back(element);
    });
    return found;
  }
  Strings Texts(const std::string& id, const std::string& kind) const {
    Strings texts;
    for (const Tree& element : Find(id, kind)) texts.push_back(element.data());
    return texts;
  }

 private:
  static void Walk(const Tree& tree, bool inside, const std::string& id,
                   const std::function<void(const Tree&)>& visit) {
    for (const auto& [name, child] : tree) {
      const bool here = inside || (!id.empty() && Attribute(child, "id") == id);
      if (here) visit(child);
      Walk(child, here, id, visit);
    }
  }

  std::string text_;
  Tree document_;
};

// Centres of the circles that mark the first run.
std::vector<std::pair<double, double>> Circles(const Figure& figure, const std::string& id) {
  std::vector<std::pair<double, double>> centres;
  for (const Tree& element : figure.Find(id, "marker")) {
    if (Attribute(element, "cx").empty()) continue;
    centres.emplace_back(std::stod(Attribute(element, "cx")), std::stod(Attribute(element, "cy")));
  }
  return centres;
}

// The numbers of a path or polygon; each has to be on or near the page.
std::vector<double> Numbers(std::string text) {
  for (char& c : text) {
    if (!isdigit(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = ' ';
  }
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (double number; stream >> number;) numbers.push_back(number);
  return numbers;
}

RunData TypicalRun(const std::string& name, int solvers, int rows = 100) {
  RunData run{name, {RunRow(0, solvers)}};
  for (int i = 1; i <= rows; ++i) {
    const double loss = 2.3 * std::exp(-5.0 * i / rows) + 0.01;
    run.rows.push_back(TrainRow(0.5 * i, 10 * i, loss * (1 + 0.3 * std::sin(37.0 * i))));
    if (i % (rows / 10) == 0) {
      run.rows.push_back(TestRow(0.5 * i + 0.1, 10 * i, 0.99 - 0.3 * loss, loss));
    }
  }
  return run;
}

TEST(Plot, HasFourPanelsWithTitlesUnitsAndTicks) {
  const Figure figure({TypicalRun("a", 2)});
  EXPECT_EQ(figure.width(), 1100);
  EXPECT_NEAR(figure.height(), 800, 60);
  EXPECT_EQ(figure.Texts("", "title"),
            (Strings{"Loss over wall time", "Test accuracy over wall time", "Loss over iterations",
                     "Test accuracy over iterations"}));
  EXPECT_EQ(figure.Texts("", "x-label"),
            (Strings{"Wall time (s)", "Wall time (s)", "Iteration", "Iteration"}));
  EXPECT_EQ(figure.Texts("", "y-label"), (Strings{"Loss (log scale)", "Test accuracy (%)",
                                                  "Loss (log scale)", "Test accuracy (%)"}));
  EXPECT_EQ(figure.Texts("loss-iteration", "x-tick"),
            (Strings{"0", "200", "400", "600", "800", "1,000"}));
  EXPECT_EQ(figure.Texts("loss-time", "x-tick"), (Strings{"0", "10", "20", "30", "40", "50"}));
  for (const char* chart : kPanels) EXPECT_GE(figure.Texts(chart, "y-tick").size(), 3u) << chart;
}

TEST(Plot, MarksEveryTestAndDrawsTheLossPaleAndSmoothed) {
  const Figure figure({TypicalRun("a", 2)});
  EXPECT_EQ(figure.Find("loss-time", "marker").size(), 10u);
  EXPECT_EQ(figure.Find("loss-iteration", "marker").size(), 10u);
  for (const char* chart : {"loss-time", "loss-iteration"}) {
    EXPECT_EQ(figure.Find(chart, "smooth").size(), 1u);
    ASSERT_EQ(figure.Find(chart, "raw").size(), 1u);
    const Tree raw = figure.Find(chart, "raw")[0];
    EXPECT_EQ(Numbers(Attribute(raw, "d")).size(), 200u);  // 100 points
    EXPECT_LT(std::stod(Attribute(raw, "stroke-opacity")), 0.5);
  }
  ASSERT_EQ(figure.Find("accuracy-time", "tests").size(), 1u);
  EXPECT_EQ(Numbers(Attribute(figure.Find("accuracy-time", "tests")[0], "d")).size(), 20u);
}

TEST(Plot, PlacesTestsInOrder) {
  const Figure figure({TypicalRun("a", 2)});
  for (const char* chart : kPanels) {
    auto centres = Circles(figure, chart);
    ASSERT_GE(centres.size(), 5u) << chart;
    std::sort(centres.begin(), centres.end());
    const bool rises = std::string(chart).rfind("accuracy", 0) == 0;
    for (size_t i = 1; i < centres.size(); ++i) {
      EXPECT_GT(centres[i].first, centres[i - 1].first);
      // y grows downwards on the page.
      const double step = centres[i].second - centres[i - 1].second;
      EXPECT_GT(rises ? -step : step, 0);
    }
  }
}

TEST(Plot, PutsAMarkerWhereTheAxesSay) {
  RunData run{"a", {TestRow(0, 0, 0.5, 1), TestRow(50, 500, 0.6, 1), TestRow(100, 1000, 0.7, 1)}};
  const Figure figure({run});
  const auto centres = Circles(figure, "accuracy-iteration");
  ASSERT_EQ(centres.size(), 3u);
  for (const Tree& tick : figure.Find("accuracy-iteration", "x-tick")) {
    const double x = std::stod(Attribute(tick, "x"));
    if (tick.data() == "0") {
      EXPECT_NEAR(centres[2].first, x, 0.02);
    }
    if (tick.data() == "1,000") {
      EXPECT_NEAR(centres[0].first, x, 0.02);
    }
  }
  bool found = false;
  for (const Tree& tick : figure.Find("accuracy-iteration", "y-tick")) {
    if (tick.data() != "60") continue;
    found = true;
    EXPECT_NEAR(centres[1].second, std::stod(Attribute(tick, "y")) - 4, 0.02);
  }
  EXPECT_TRUE(found);
}

TEST(Plot, NamesEveryRunWithItsSolversAndItsFinalAccuracy) {
  RunData last{"c", {TrainRow(1, 1, 1)}};
  const Figure figure({TypicalRun("one", 1), TypicalRun("two", 2), last});
  EXPECT_EQ(figure.Texts("", "legend"), (Strings{"one (1 solver)", "two (2 solvers)", "c"}));
  const Strings captions = figure.Texts("", "caption");
  ASSERT_EQ(captions.size(), 3u);
  EXPECT_CONTAINS(captions[0], "one (1 solver): final test accuracy 98.2");
  EXPECT_CONTAINS(captions[0], " % (iteration 1,000, 50.1 s)");
  EXPECT_EQ(captions[2], "c: no test accuracy recorded");
}

TEST(Plot, GivesRunsDifferentColoursAndMarkers) {
  std::vector<RunData> runs;
  for (int i = 0; i < 14; ++i) runs.push_back(TypicalRun("run" + std::to_string(i), i + 1));
  const Figure figure(runs);
  EXPECT_EQ(figure.Texts("", "legend").size(), 14u);
  EXPECT_EQ(figure.Texts("", "caption").size(), 14u);
  std::set<std::string> looks;
  for (const Tree& line : figure.Find("loss-time", "smooth")) {
    looks.insert(Attribute(line, "stroke") + Attribute(line, "stroke-dasharray"));
  }
  EXPECT_EQ(looks.size(), 14u);
}

TEST(Plot, EscapesNamesAndShortensLongOnes) {
  const std::string name = "<b>&\"quoted\" \x01\xff\xc3\xa9";
  const Figure figure({TypicalRun(name, 1), TypicalRun(std::string(300, 'x'), 1)});
  const Strings legend = figure.Texts("", "legend");
  EXPECT_EQ(legend[0], "<b>&\"quoted\" \xef\xbf\xbd\xef\xbf\xbd\xc3\xa9 (1 solver)");
  EXPECT_EQ(legend[1], std::string(43, 'x') + "\xe2\x80\xa6 (1 solver)");
}

TEST(Plot, SaysWhereNothingWasRecorded) {
  const Figure untested({{"a", {TrainRow(1, 10, 2), TrainRow(2, 20, 1)}}});
  EXPECT_TRUE(untested.Texts("loss-time", "empty").empty());
  EXPECT_EQ(untested.Texts("accuracy-time", "empty"), Strings{"nothing recorded"});
  MetricsRow row = TestRow(1, 1, 0.5, 1);
  row.mutable_test()->mutable_outputs()->erase("loss");
  const Figure lossless({{"a", {row}}});
  EXPECT_EQ(lossless.Texts("loss-iteration", "empty"), Strings{"nothing recorded"});
  EXPECT_EQ(lossless.Find("accuracy-iteration", "marker").size(), 1u);
}

TEST(Plot, ShowsARunOfASinglePoint) {
  const Figure figure({{"a", {TrainRow(0, 0, 2.3)}}});
  ASSERT_EQ(figure.Find("loss-time", "smooth").size(), 1u);
  EXPECT_EQ(Numbers(Attribute(figure.Find("loss-time", "smooth")[0], "d")).size(), 4u);
  EXPECT_EQ(Figure({{"a", {TestRow(0, 0, 0.5, 2)}}}).Find("accuracy-time", "marker").size(), 1u);
}

TEST(Plot, RefusesToDrawNothing) {
  EXPECT_CONTAINS(test::ErrorOf([] { PlotRuns({}); }), "nothing to plot");
  EXPECT_CONTAINS(test::ErrorOf([] { PlotRuns({{"a", {RunRow(0, 1)}}}); }), "nothing to plot");
}

TEST(Plot, StaysSmallForHundredsOfThousandsOfRows) {
  RunData run = TypicalRun("a", 2, 300000);
  const Figure figure({run});
  EXPECT_LT(figure.text().size(), 400000u);
  EXPECT_LE(figure.Find("loss-time", "marker").size(), 30u);
  RunData tests{"b", {}};
  for (int i = 0; i < 5000; ++i) tests.rows.push_back(TestRow(i, i, 0.5 + 1e-5 * i, 1));
  EXPECT_LE(Figure({tests}).Find("accuracy-time", "marker").size(), 30u);
}

TEST(Plot, TakesNumbersOfAnyKind) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = std::numeric_limits<double>::max();
  const double odd[] = {0,       -1,     std::nan(""), infinity, -infinity,
                        largest, 1e-308, -largest,     5e-324,   1};
  for (double value : odd) {
    for (double time : odd) {
      RunData run{"a", {RunRow(0, 1), TrainRow(time, 1, value), TestRow(time, 2, value, value)}};
      run.rows.push_back(TrainRow(1, INT64_MAX, 1));
      run.rows.push_back(TrainRow(2, INT64_MIN, value));
      run.rows.push_back(RunRow(1, -5));
      run.rows.push_back(TestRow(time, 3, 0.5, value));
      const Figure figure({run});
      EXPECT_EQ(figure.text().find("nan"), std::string::npos) << value << " at " << time;
      EXPECT_EQ(figure.text().find("inf"), std::string::npos) << value << " at " << time;
      for (const char* chart : kPanels) {
        for (const char* kind : {"raw", "smooth", "tests"}) {
          for (const Tree& path : figure.Find(chart, kind)) {
            for (double number : Numbers(Attribute(path, "d"))) ASSERT_LT(std::abs(number), 1e4);
          }
        }
      }
    }
  }
}

TEST(Plot, LetsADivergedRunSpoilNoOther) {
  RunData diverged{"b", {RunRow(0, 1)}};
  for (int i = 0; i < 100; ++i) {
    diverged.rows.push_back(TrainRow(i, i * 10, i < 40 ? 2.0 : i < 70 ? 1e20 : std::nan("")));
  }
  const Figure figure({TypicalRun("a", 1), diverged});
  for (const std::string& label : figure.Texts("loss-time", "y-tick")) {
    EXPECT_LE(std::stod(label), 100) << label;
  }
}

TEST(Plot, ZoomsIntoTheAccuraciesThatMatter) {
  RunData run{"a", {TestRow(0, 0, 0.1, 2)}};
  for (int i = 1; i <= 20; ++i) run.rows.push_back(TestRow(i, i * 500, 0.98 + 0.0005 * i, 0.1));
  const Figure figure({run});
  EXPECT_GE(std::stod(figure.Texts("accuracy-time", "y-tick").front()), 97);
  EXPECT_EQ(figure.Find("accuracy-time", "marker").size(), 20u);  // first not shown
}

TEST(Plot, UsesALinearScaleForLossesThatAreNotPositive) {
  const Figure figure({{"a", {TrainRow(1, 1, 2), TrainRow(2, 2, -1)}}});
  EXPECT_EQ(figure.Texts("loss-time", "y-label"), Strings{"Loss"});
}

TEST(Svg, KeepsCoordinatesShortAndFinite) {
  EXPECT_EQ(Coordinate(1.0 / 3), "0.33");
  EXPECT_EQ(Coordinate(100), "100");
  EXPECT_EQ(Coordinate(-0.001), "0");
  EXPECT_EQ(Coordinate(1e300), "100000");
  EXPECT_EQ(Coordinate(std::nan("")), "0");
}

TEST(Svg, ReplacesWhatXmlDoesNotAllow) {
  EXPECT_EQ(XmlText("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c'");
  const std::string replaced = "\xef\xbf\xbd";
  EXPECT_EQ(XmlText(std::string("\0\n", 2)), replaced + replaced);
  EXPECT_EQ(XmlText("\xc3"), replaced);                                // truncated
  EXPECT_EQ(XmlText("\xc0\xaf"), replaced + replaced);                 // overlong
  EXPECT_EQ(XmlText("\xed\xa0\x80"), replaced + replaced + replaced);  // a surrogate
  EXPECT_EQ(XmlText("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace millrace
