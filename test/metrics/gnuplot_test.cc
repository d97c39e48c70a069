// Draws figures with gnuplot, parses the pictures as XML, and checks what they show. Tests that
// need gnuplot are skipped where it is not installed.
#include "metrics/figure.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "base/files/file.h"
#include "base/rng.h"
#include "test/metrics/rows.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::RunRow;
using test::TestRow;
using test::TrainRow;
using test::TypicalRun;
using Tree = boost::property_tree::ptree;
using Strings = std::vector<std::string>;
using RunData = millrace::Run;  // inside a test, Run is a member of the test

constexpr char kWhite[] = "rgb(255, 255, 255)";

struct Place {
  double x, y;
};

std::string Attribute(const Tree& element, const std::string& name) {
  return element.get<std::string>("<xmlattr>." + name, "");
}

// The numbers of a path or a transformation.
std::vector<double> Numbers(std::string text) {
  for (char& c : text) {
    if (!isdigit(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = ' ';
  }
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (double number; stream >> number;) numbers.push_back(number);
  return numbers;
}

// All character data below an element, without white space at its ends.
std::string TextOf(const Tree& element) {
  std::string text = element.data();
  for (const auto& [name, child] : element) {
    if (name != "<xmlattr>") text += TextOf(child);
  }
  const size_t begin = text.find_first_not_of(" \n\t");
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n\t") + 1 - begin);
}

class Picture {
 public:
  explicit Picture(const Figure& figure) {
    test::TempDir folder;
    RunGnuplot(FigureScript(figure, "a.svg"), folder / "a.svg");
    source_ = ReadFile(folder / "a.svg");
    title_ = figure.charts[0].title;
    std::istringstream stream(source_);
    boost::property_tree::read_xml(stream, document_);  // throws unless well-formed
    Read(document_, "");
  }
  explicit Picture(const std::vector<RunData>& runs) : Picture(PlotRuns(runs)) {}

  const std::string& source() const { return source_; }
  double Size(const char* side) const {
    return std::stod(Attribute(document_.get_child("svg"), side));
  }
  Strings texts() const {
    Strings all;
    for (const Label& label : labels_) all.push_back(label.text);
    return all;
  }
  bool Shows(const std::string& text) const {
    const Strings all = texts();
    return std::find(all.begin(), all.end(), text) != all.end();
  }
  // Texts of a chart, in the order of the axis.
  Strings XTicks() const { return TextsOf(Ticks(false, 0)); }
  Strings YTicks(size_t chart = 0) const { return TextsOf(Ticks(true, chart)); }
  // The place of the first chart's tick with a text; fails the test if there is none.
  double XOfTick(const std::string& text) const { return Find(Ticks(false, 0), text).x; }
  double YOfTick(const std::string& text) const { return Find(Ticks(true, 0), text).y - 3.9; }

  // Numbers of the lines of a data block such as "$line1x1", and the places of its markers, in the
  // order drawn.
  std::vector<double> Line(const std::string& block) const {
    const auto found = lines_.find(block);
    return found == lines_.end() ? std::vector<double>() : found->second;
  }
  std::vector<Place> Markers(const std::string& block) const {
    const auto found = markers_.find(block);
    return found == markers_.end() ? std::vector<Place>() : found->second;
  }
  // Colours, dashes and shapes of a data block.
  std::string Style(const std::string& block) const { return styles_.at(block); }
  const std::map<std::string, std::vector<double>>& lines() const { return lines_; }

 private:
  struct Label {
    Place at;
    std::string anchor, text;
  };

  static Strings TextsOf(const std::vector<Label>& labels) {
    Strings all;
    for (const Label& label : labels) all.push_back(label.text);
    return all;
  }
  // Ticks of the y axis end at the left of a frame, those of the x axis are centred below it.
  std::vector<Label> Ticks(bool y, size_t chart) const {
    const double left = chart % 2 == 0 ? 78 : 630;
    double top = 0;
    size_t titles = 0;
    for (const Label& label : labels_) {
      if (label.text == title_ && titles++ == chart) top = label.at.y;
    }
    std::vector<Label> ticks;
    for (const Label& label : labels_) {
      const double x = label.at.x - left, below = label.at.y - top;
      if (y ? label.anchor == "end" && x < 0 && x > -20 && below > 0 && below < 290
            : label.anchor == "middle" && x >= 0 && x <= 440 && below > 280 && below < 300) {
        ticks.push_back(label);
      }
    }
    return ticks;
  }
  static Place Find(const std::vector<Label>& labels, const std::string& text) {
    for (const Label& label : labels) {
      if (label.text == text) return label.at;
    }
    ADD_FAILURE() << "no tick " << text;
    return {};
  }

  // `plot` is the title of the enclosing plot.
  void Read(const Tree& tree, std::string plot) {
    if (const auto title = tree.get_child_optional("title")) plot = title->data();
    for (const auto& [name, child] : tree) {
      if (name == "g" && child.count("text") != 0) {
        const auto at = Numbers(Attribute(child, "transform"));
        labels_.push_back({{at.at(0), at.at(1)},
                           Attribute(child, "text-anchor"),
                           TextOf(child.get_child("text"))});
      } else if (name == "path") {
        const auto numbers = Numbers(Attribute(child, "d"));
        lines_[plot].insert(lines_[plot].end(), numbers.begin(), numbers.end());
        styles_[plot] += Attribute(child, "stroke") + Attribute(child, "stroke-dasharray");
      } else if (name == "use" && plot[0] == '$' && Attribute(child, "color") != kWhite) {
        const auto at = Numbers(Attribute(child, "transform"));
        markers_[plot].push_back({at.at(0), at.at(1)});
        styles_[plot] += Attribute(child, "color") + Attribute(child, "xlink:href");
      }
      Read(child, plot);
    }
  }

  std::string source_, title_;
  Tree document_;
  std::vector<Label> labels_;
  std::map<std::string, std::vector<double>> lines_;
  std::map<std::string, std::vector<Place>> markers_;
  std::map<std::string, std::string> styles_;
};

// One chart with one run, its values marked.
Figure Marked(const Curve& curve, AxisRange x, AxisRange y) {
  Figure figure;
  figure.runs = {"run"};
  figure.charts = {{"Title", "x label", "y label", x, y, {{{}, {}, curve}}}};
  return figure;
}

class Gnuplot : public testing::Test {
 protected:
  void SetUp() override {
    if (test::Run({"/bin/sh", "-c", "command -v gnuplot"}).status != 0) {
      GTEST_SKIP() << "gnuplot is not installed (Debian package gnuplot-nox)";
    }
  }
};

TEST_F(Gnuplot, DrawsFourPanelsWithTitlesLabelsAndTicks) {
  const Picture picture({TypicalRun("a", 2)});
  EXPECT_EQ(picture.Size("width"), 1100);
  EXPECT_NEAR(picture.Size("height"), 800, 60);
  for (const char* text :
       {"Loss over wall time", "Test accuracy over wall time", "Loss over iterations",
        "Test accuracy over iterations", "Wall time (s)", "Iteration", "Loss (log scale)",
        "Test accuracy (%)", "training loss", "its moving average", "test", "1000"}) {
    EXPECT_TRUE(picture.Shows(text)) << text;
  }
  EXPECT_EQ(picture.XTicks(), (Strings{"0", "10", "20", "30", "40", "50"}));
  EXPECT_GE(picture.YTicks().size(), 2u);
}

TEST_F(Gnuplot, DrawsCurvesAndMarkersOfEveryRun) {
  const Figure figure = PlotRuns({TypicalRun("a", 2), TypicalRun("b", 1)});
  const Picture picture(figure);
  for (const char* place : {"1x1", "1x2", "2x1", "2x2", "3x1", "3x2", "4x1", "4x2"}) {
    const bool is_loss = place[0] == '1' || place[0] == '3';
    EXPECT_GE(picture.Line(std::string("$line") + place).size(), is_loss ? 190u : 10u) << place;
    EXPECT_GE(picture.Line(std::string("$thin") + place).size(), is_loss ? 180u : 0u) << place;
    const auto markers = picture.Markers(std::string("$markers") + place);
    ASSERT_GE(markers.size(), 5u) << place;
    EXPECT_LE(markers.size(), 10u) << place;
    for (size_t at = 1; at < markers.size(); ++at) {
      EXPECT_GT(markers[at].x, markers[at - 1].x);
      // y grows downwards on the page.
      EXPECT_GT((markers[at].y - markers[at - 1].y) * (is_loss ? 1 : -1), 0);
    }
  }
  EXPECT_TRUE(picture.Shows(figure.runs[0]));
  EXPECT_TRUE(picture.Shows(figure.runs[1]));
}

TEST_F(Gnuplot, GivesRunsDifferentColoursAndMarkers) {
  Figure figure = Marked({}, {0, 3}, {0, 3});
  figure.runs.assign(14, "run");
  figure.charts[0].runs.assign(14, {{}, {{1, 1}, {2, 2}}, {{2, 2}}});
  const Picture picture(figure);
  std::set<std::string> lines, markers;
  for (int i = 1; i <= 14; ++i) {
    lines.insert(picture.Style("$line1x" + std::to_string(i)));
    markers.insert(picture.Style("$markers1x" + std::to_string(i)));
  }
  EXPECT_EQ(lines.size(), 14u);
  EXPECT_EQ(markers.size(), 14u);
}

TEST_F(Gnuplot, GrowsWithTheLegendAndTheCharts) {
  const auto height = [](size_t runs, size_t charts, const char* footnote) {
    Figure figure = Marked({}, {0, 3}, {0, 3});
    figure.runs.assign(runs, "run");
    figure.charts[0].runs.assign(runs, {});
    figure.charts.assign(charts, figure.charts[0]);
    figure.footnote = footnote;
    return Picture(figure).Size("height");
  };
  EXPECT_NEAR(height(1, 4, ""), 760, 20);
  EXPECT_EQ(height(30, 4, ""), height(10, 4, "") + 20 * 20);
  EXPECT_EQ(height(1, 3, ""), height(1, 4, ""));
  EXPECT_LT(height(1, 2, ""), height(1, 3, "") - 300);
  EXPECT_GT(height(1, 4, "footnote"), height(1, 4, ""));
}

TEST_F(Gnuplot, PutsAMarkerWhereTheAxesSay) {
  const Picture picture(Marked({{0, 50}, {500, 60}, {1000, 70}}, {0, 1015}, {48, 72}));
  const auto markers = picture.Markers("$markers1x1");
  ASSERT_EQ(markers.size(), 3u);
  EXPECT_NEAR(markers[0].x, picture.XOfTick("0"), 0.02);
  EXPECT_NEAR(markers[2].x, picture.XOfTick("1000"), 0.02);
  EXPECT_NEAR(markers[0].y, picture.YOfTick("50"), 0.02);
  EXPECT_NEAR(markers[1].y, picture.YOfTick("60"), 0.02);
  EXPECT_NEAR(markers[2].y, picture.YOfTick("70"), 0.02);
}

TEST_F(Gnuplot, SpacesDecadesEvenly) {
  const Picture picture(Marked({{0, 0.01}, {1, 0.1}, {2, 1}}, {0, 2}, {0.01, 1, 10}));
  const auto markers = picture.Markers("$markers1x1");
  ASSERT_EQ(markers.size(), 3u);
  EXPECT_NEAR(markers[0].y - markers[1].y, markers[1].y - markers[2].y, 0.02);
  EXPECT_NEAR(markers[1].y, picture.YOfTick("0.1"), 0.02);
}

TEST_F(Gnuplot, PutsRoundNumbersOnEveryAxis) {
  const auto y_ticks = [](AxisRange y) { return Picture(Marked({{0, y.low}}, {}, y)).YTicks(); };
  EXPECT_EQ(y_ticks({0, 0.3}), (Strings{"0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"}));
  EXPECT_EQ(y_ticks({96.6, 99.2}), (Strings{"97.0", "97.5", "98.0", "98.5", "99.0"}));
  EXPECT_EQ(y_ticks({-1, 1}), (Strings{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
  // A long logarithm, a short one, and one that is almost linear.
  EXPECT_EQ(y_ticks({0.0008, 3, 10}), (Strings{"0.001", "0.01", "0.1", "1"}));
  Strings short_one = y_ticks({0.04, 1.2, 10});
  std::sort(short_one.begin(), short_one.end());
  EXPECT_EQ(short_one, (Strings{"0.05", "0.1", "0.2", "0.5", "1"}));
  EXPECT_EQ(y_ticks({2.275, 2.325, 10}), (Strings{"2.28", "2.29", "2.30", "2.31", "2.32"}));
  EXPECT_EQ(Picture(Marked({{2, 1}}, {1.8, 1100, 2}, {0, 1})).XTicks(),
            (Strings{"2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"}));
}

TEST_F(Gnuplot, ShowsAwkwardNamesLiterally) {
  test::TempDir folder;
  const std::string target = folder / "touched", command = "`touch " + target + "`";
  const Strings names = {"<b>&\"quoted\" 'q' ''",
                         "{/:Bold x}^2_3 @a ~b &{c}",
                         "a\\",
                         "'''",
                         "'",
                         "1'2''3",
                         "%s # $x ! | $HOME",
                         "\u00e9\u7f51 &alpha; \\n \\101",
                         command,
                         "\"; system 'touch " + target + "'; #",
                         "'; system 'touch " + target + "'; #",
                         "'.system('touch " + target + "').'"};
  Figure figure = Marked({{0, 1}, {1, 2}}, {0, 1}, {0, 2});
  figure.runs = names;
  figure.charts[0].runs.resize(names.size());
  figure.charts[0].x_label = names[1];
  figure.charts[0].y_label = figure.thin_text = figure.line_text = command;
  figure.footnote = command;
  const Picture picture(figure);
  for (const std::string& name : names) EXPECT_TRUE(picture.Shows(name)) << name;
  const Strings texts = picture.texts();
  EXPECT_EQ(std::count(texts.begin(), texts.end(), names[1]), 2);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), command), 5);
  EXPECT_FALSE(FileExists(target));
}

TEST_F(Gnuplot, ShowsRandomNamesLiterally) {
  Rng rng(test::Seed(), {2});
  Figure figure = Marked({}, {0, 1}, {0, 2});
  figure.runs.clear();
  for (int i = 0; i < 300; ++i) {
    std::string name;
    while (name.size() < 12) {
      // Mostly characters that may mean something to gnuplot.
      constexpr char kSpecial[] = "'\"`\\@{}$#%^_&~!;,.()[]<>|0123";
      name += rng.Below(3) ? kSpecial[rng.Below(sizeof(kSpecial) - 1)]
                           : static_cast<char>('!' + rng.Below('~' - '!' + 1));
    }
    figure.runs.push_back(name);
  }
  figure.charts[0].runs.resize(figure.runs.size());
  const Strings texts = Picture(figure).texts();
  EXPECT_TRUE(std::equal(figure.runs.begin(), figure.runs.end(), texts.begin(),
                         texts.begin() + static_cast<int>(figure.runs.size())));
}

TEST_F(Gnuplot, ShowsNamesThatLookLikeCharactersOfXml) {
  Figure figure = Marked({}, {0, 1}, {0, 2});
  figure.runs = {"&#x", "&#x41;", "a&#x&#x;", "&#65;", "&amp;", "&#x26;#x"};
  figure.charts[0].runs.resize(figure.runs.size());
  const Strings texts = Picture(figure).texts();
  EXPECT_EQ(Strings(texts.begin(), texts.begin() + 6), figure.runs);
}

TEST_F(Gnuplot, ReplacesWhatXmlDoesNotAllow) {
  const Picture picture(
      {TypicalRun("a\x01"
                  "b\nc\xff\xef\xbf\xbf",
                  0)});
  EXPECT_EQ(picture.texts().at(0).substr(0, 9), "a?b?c??: ");
}

TEST_F(Gnuplot, SaysWhereNothingWasRecorded) {
  const Picture picture({{"a", {TrainRow(1, 10, 2), TrainRow(2, 20, 1)}}});
  const Strings texts = picture.texts();
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "nothing recorded"), 2);
}

TEST_F(Gnuplot, ShowsARunOfASinglePoint) {
  EXPECT_EQ(Picture({{"a", {TrainRow(0, 0, 2.3)}}}).Line("$line1x1").size(), 4u);
  EXPECT_EQ(Picture({{"a", {TestRow(0, 0, 0.5, 2)}}}).Markers("$markers2x1").size(), 1u);
}

TEST_F(Gnuplot, StaysSmallForHundredsOfThousandsOfRows) {
  EXPECT_LT(Picture({TypicalRun("a", 2, 300000)}).source().size(), 400000u);
}

TEST_F(Gnuplot, DrawsNumbersOfAnyKind) {
  for (double value : test::kOddNumbers) {
    for (double time : {0.0, -1.0, 1e-308, std::numeric_limits<double>::infinity()}) {
      const Picture picture({test::OddRun(time, value), TypicalRun("typical", 1)});
      for (const char* number : {"nan", "inf"}) {
        EXPECT_EQ(picture.source().find(number), std::string::npos) << value << " at " << time;
      }
      for (const auto& [block, numbers] : picture.lines()) {
        for (double number : numbers) ASSERT_LT(std::abs(number), 1e4) << block;
      }
    }
  }
}

// Many ranges in one picture.
TEST_F(Gnuplot, PutsAFewDistinctTicksOnAnyRange) {
  Rng rng(test::Seed(), {1});
  Figure figure = Marked({}, {}, {});
  const Chart chart = figure.charts[0];
  figure.charts.clear();
  for (int i = 0; i < 100; ++i) {
    double low = std::pow(10, 30 * rng.Uniform() - 15), high = low;
    const bool logarithmic = rng.Below(2);
    if (logarithmic) {
      high *= std::pow(10, 12 * rng.Uniform() + 0.01);
    } else {
      high += std::pow(10, 30 * rng.Uniform() - 15) + 1e-6 * low;
    }
    figure.charts.push_back(chart);
    figure.charts.back().y = AxisRange{low, high, logarithmic ? 10 : 0};
  }
  const Picture picture(figure);
  for (size_t i = 0; i < figure.charts.size(); ++i) {
    const AxisRange& range = *figure.charts[i].y;
    const size_t ticks = picture.YTicks(i).size();
    EXPECT_GE(ticks, 2u) << range.low << " " << range.high << " " << range.log_base;
    EXPECT_LE(ticks, 14u) << range.low << " " << range.high << " " << range.log_base;
  }
}

TEST_F(Gnuplot, DrawsPng) {
  test::TempDir folder;
  RunGnuplot(FigureScript(PlotRuns({TypicalRun("a", 1)}), "a.png"), folder / "a.png");
  EXPECT_EQ(ReadFile(folder / "a.png").substr(0, 8), "\x89PNG\r\n\x1a\n");
}

TEST_F(Gnuplot, SaysInOneLineWhatIsWrongWithAScript) {
  test::TempDir folder;
  test::WriteFile(folder / "a.svg", "old");
  const std::string error = test::ErrorOf(
      [&] { RunGnuplot("set terminal svg\nplot nothing_of_this_name\n", folder / "a.svg"); });
  EXPECT_CONTAINS(error, folder / "a.svg" + ": not drawn: gnuplot ended with status 1: ");
  EXPECT_CONTAINS(error, "undefined variable: nothing_of_this_name");
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_EQ(ReadFile(folder / "a.svg"), "old");
}

// Puts a program named gnuplot, or none, before all others.
class FakeGnuplot {
 public:
  explicit FakeGnuplot(const std::string& script) : old_path_(getenv("PATH")) {
    if (!script.empty()) {
      test::WriteFile(folder_ / "gnuplot", "#!/bin/sh\n" + script);
      chmod((folder_ / "gnuplot").c_str(), 0755);
    }
    setenv("PATH", folder_.path().c_str(), 1);
  }
  ~FakeGnuplot() { setenv("PATH", old_path_.c_str(), 1); }

 private:
  const std::string old_path_;
  test::TempDir folder_;
};

// The error of drawing over a file, which has to stay as it was, with nothing beside it.
std::string ErrorOfDrawing() {
  test::TempDir folder;
  test::WriteFile(folder / "a.svg", "old");
  const std::string error = test::ErrorOf([&] { RunGnuplot("script", folder / "a.svg"); });
  EXPECT_EQ(ReadFile(folder / "a.svg"), "old");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

TEST(RunGnuplot, NamesThePackageWhereGnuplotIsMissing) {
  FakeGnuplot missing("");
  EXPECT_EQ(ErrorOfDrawing(),
            "gnuplot, which draws figures, is not installed: install the package gnuplot-nox");
}

TEST(RunGnuplot, KeepsTheOldPictureWhenGnuplotFails) {
  {
    FakeGnuplot failing("echo half; printf '\\n  ^\\n   line 7: no\\001pe\\n\\n' >&2; exit 3");
    EXPECT_CONTAINS(ErrorOfDrawing(), ": not drawn: gnuplot ended with status 3: line 7: no?pe");
  }
  {
    FakeGnuplot killed("echo half; kill -9 $$");
    EXPECT_CONTAINS(ErrorOfDrawing(), ": not drawn: gnuplot was ended by signal 9: no message");
  }
  FakeGnuplot silent("exit 0");
  EXPECT_CONTAINS(ErrorOfDrawing(), ": not drawn: gnuplot ended with status 0: no message");
}

TEST(RunGnuplot, PassesTheScriptAndNoStartUpFiles) {
  test::TempDir folder;
  FakeGnuplot echo("echo \"$@\"; while read -r line; do echo \"$line\"; done");
  std::string script = "first\n";
  for (int i = 0; i < 20000; ++i) script += "line of a long script\n";
  RunGnuplot(script, folder / "a.svg");
  EXPECT_EQ(ReadFile(folder / "a.svg"), "-d\n" + script);
}

TEST(RunGnuplot, SaysWhereItCannotWrite) {
  FakeGnuplot missing("");
  EXPECT_CONTAINS(test::ErrorOf([] { RunGnuplot("", "/no/such/folder/a.svg"); }),
                  "/no/such/folder/a.svg");
}

}  // namespace
}  // namespace millrace
