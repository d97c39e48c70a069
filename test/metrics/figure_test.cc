// Figures as scripts. gnuplot is not run here; test/metrics/gnuplot_test.cc does that.
#include "metrics/figure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "test/support/support.h"

namespace millrace {
namespace {

Figure OneLine() {
  Figure figure;
  figure.runs = {"it's"};
  figure.charts = {{"title", "x", "y", {0, 9}, AxisRange{0.1, 90, 10}, {{{}, {{1, 1}}, {}}}}};
  return figure;
}

TEST(FigureScript, HoldsNumbersAsTheyAreAndGapsAsNaN) {
  Figure figure = OneLine();
  figure.charts[0].runs[0].line = {{0.1, 1e-30}, {1234567.25, std::nan("")}, {1e15, -1e30}};
  EXPECT_CONTAINS(FigureScript(figure, "a.svg"),
                  "$line1x1 << END\n0.1 1e-30\n1234567.25 NaN\n1e+15 -1e+30\nEND\n");
}

TEST(FigureScript, HoldsTextsAsLiteralsAndRangesAsNumbers) {
  const std::string script = FigureScript(OneLine(), "a.svg");
  for (const char* part : {"\nruns = 1\n", "\ncharts = 1\n", "\narray name[1] = [\"it\\047s\"]\n",
                           "\narray x_label[1] = [\"x\"]\n", "\narray y_low[1] = [0.1]\n",
                           "\narray y_high[1] = [90]\n", "\narray y_base[1] = [10]\n",
                           "\narray recorded[1] = [1]\n"}) {
    EXPECT_CONTAINS(script, part);
  }
  Figure figure = OneLine();
  figure.charts[0].y = std::nullopt;
  EXPECT_CONTAINS(FigureScript(figure, "a.svg"), "\narray recorded[1] = [0]\n");
}

TEST(FigureScript, SelectsTheFormatByTheNameOfTheFile) {
  EXPECT_CONTAINS(FigureScript(OneLine(), "folder/a.png"), "\npng = 1\n");
  EXPECT_CONTAINS(FigureScript(OneLine(), "folder.png/a.svg"), "\npng = 0\n");
  EXPECT_CONTAINS(FigureScript(OneLine(), "png"), "\npng = 0\n");
}

TEST(GnuplotText, HoldsNothingThatGnuplotInterprets) {
  EXPECT_EQ(GnuplotText("a B"), "\"a B\"");
  EXPECT_EQ(GnuplotText("'\"`"), R"("\047\042\140")");
  EXPECT_EQ(GnuplotText("\\@1"), R"("\134\100\061")");
  EXPECT_EQ(GnuplotText("\u00e9"), "\"\u00e9\"");
  EXPECT_EQ(GnuplotText("a\nb\xff"), R"("a\077b\077")");
}

}  // namespace
}  // namespace millrace
