#include "metrics/figure.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "base/drawing_program.h"
#include "base/error.h"
#include "base/text/utf8.h"

namespace millrace::inline metrics {

void RunGnuplot(const std::string& script, const std::string& path) {
  Draw({"gnuplot", {"-d"}, "which draws figures", "gnuplot-nox"}, script, path);
}

std::string GnuplotText(const std::string& text) {
  std::string literal = "\"";
  for (char c : OneLine(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ' || std::isalpha(byte) || byte >= 0x80) {
      literal += c;
    } else {
      literal += '\\';
      for (int shift : {6, 3, 0}) literal += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return literal + '"';
}

namespace {

// Draws the variables set before it: `runs` and `charts` are counts; arrays hold what their
// names say, for each run or chart; the data block $thin2x1 is the thin line of run 1 in chart 2.
// Lengths are pixels of a picture that is 1100 wide.
//
// The palette is that of Okabe and Ito ("Color Universal Design", 2008), which people with any
// colour vision can distinguish, without its yellow, which is hard to see on white. Once it
// repeats, lines are dashed. Markers have sizes of about equal area; their white border separates
// them from lines.
constexpr char kDraw[] = R"gnuplot(
colour(i) = word('#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000', (i - 1) % 7 + 1)
pale(i) = sprintf('#%02x', int(255 * (1 - thin_opacity))) . substr(colour(i), 2, 7)
dashes(i) = (i - 1) / 7 % 4 + 1
shape(i) = int(word('7 5 9 13 11 15', (i - 1) % 6 + 1))
size(i) = real(word('0.84 0.73 0.78 0.74 0.78 0.76', (i - 1) % 6 + 1))

legend = 20
top = 70 + legend * runs
height = top + 356 * ((charts + 1) / 2) - 40 + 24 * (strlen(footnote) > 0)
px(pixels) = pixels / 1100.
py(pixels) = 1 - pixels / real(height)
if (png) {
  set terminal pngcairo size 2200,2*height font 'sans-serif,12' fontscale 1.68 pointscale 2.7 \
    linewidth 2 rounded background rgb 'white'
} else {
  set terminal svg size 1100,height font 'sans-serif,12' rounded background rgb 'white'
}
set multiplot
ink = '#222222'
grey = '#555555'

# The legends and the footnote, in plots of nothing over the whole page.
unset border
unset tics
set margins at screen 0, screen 1, screen 0, screen 1
set key noenhanced at screen px(69),py(6) left top Left reverse samplen 2.2 font ',13' tc rgb ink
plot [0:1][0:1] NaN notitle, for [i=1:runs] NaN with linespoints lw 2.2 dt dashes(i) \
  pt shape(i) ps size(i) lc rgb colour(i) title name[i]
set key horizontal at screen px(69),py(12 + legend * runs) font ',12' tc rgb grey
set label 1 footnote noenhanced at screen px(78),py(height - 12) font ',12' tc rgb grey
plot [0:1][0:1] NaN notitle, NaN with lines lw 1 lc rgb '#80555555' title thin_text, \
  NaN with lines lw 2 lc rgb grey title line_text, \
  NaN with points pt 7 ps 0.84 lc rgb grey title markers_text

do for [c=1:charts] {
  reset
  unset key
  set clip two
  set border 3 back lc rgb ink lw 1.2
  set xtics nomirror out scale 0.4,0 offset 0,0.4 tc rgb ink
  set ytics nomirror scale 0.001 offset 0.4,0 tc rgb ink
  set grid xtics ytics mytics lt 1 lw 1 lc rgb '#e4e4e4', lt 1 lw 1 lc rgb '#f0f0f0'
  left = c % 2 ? 78 : 630
  above = top + 356 * ((c - 1) / 2)
  set margins at screen px(left), screen px(left + 440), screen py(above + 262), screen py(above)
  set title '{/:Bold ' . title[c] . '}' font ',14' offset 0,-0.6 tc rgb ink
  set xlabel x_label[c] noenhanced font ',13' offset 0,0.8 tc rgb ink
  set label 1 y_label[c] noenhanced at graph -0.123, graph 0.5 center rotate by 90 font ',13' \
    tc rgb ink
  array low[2] = [x_low[c], y_low[c]]
  array high[2] = [x_high[c], y_high[c]]
  array base[2] = [x_base[c], y_base[c]]
  set xrange [low[1]:high[1]]
  set yrange [low[2]:high[2]]
  do for [i=1:2] {
    a = i == 1 ? 'x' : 'y'
    decades = base[i] ? log10(high[i] / real(low[i])) : 0
    if (decades >= 0.7) {
      eval sprintf('set logscale %s %d', a, base[i])
      # On a short axis powers of ten are not enough.
      if (base[i] == 10 && decades < 2.3) {
        do for [e=-30:30] {
          eval sprintf("set %stics add ('%g' %g, '%g' %g)", a, 2 * 10.**e, 2 * 10.**e, \
            5 * 10.**e, 5 * 10.**e)
        }
      }
    } else {
      # Round numbers; also on a logarithmic axis that is too short for anything else.
      if (base[i]) { eval sprintf('set nonlinear %s via log10(%s) inverse 10**%s', a, a, a) }
      rough = (high[i] - low[i]) / 6.
      power = 10. ** floor(log10(rough))
      step = rough <= power ? power : rough <= 2 * power ? 2 * power : \
        rough <= 5 * power ? 5 * power : 10 * power
      eval sprintf('set %stics %.15g', a, step)
      decimals = -floor(log10(1.0001 * step))
      if (decimals < 7 && step < 1e6) {
        eval sprintf("set format %s '%%.%df'", a, decimals > 0 ? decimals : 0)
      }
    }
  }
  if (!recorded[c]) {
    unset tics
    unset grid
    set label 2 'nothing recorded' at graph 0.5, graph 0.5 center font ',13' tc rgb grey
    plot NaN
  } else {
    data(what, i) = sprintf('$%s%dx%d', what, c, i)
    # The last loop is for gnuplot 6: it refuses a last loop that has a title with the loop's
    # variable, but no points.
    plot NaN, \
      for [i=1:runs] data('thin', i) title data('thin', i) with lines lw 0.8 lc rgb pale(i), \
      for [i=1:runs] data('line', i) title data('line', i) with lines lw 1.8 dt dashes(i) \
        lc rgb colour(i), \
      for [i=1:runs] for [j=0:1] data('markers', i) title data('markers', i) \
        with points pt shape(i) ps size(i) + 0.22 * (1 - j) lc rgb j ? colour(i) : 'white', \
      for [i=1:runs] NaN notitle
  }
}
unset multiplot
)gnuplot";

// Shortest text that reads back as the same number.
std::string Exact(double value) {
  char text[32];
  return std::isfinite(value)
             ? std::string(text, std::to_chars(text, text + sizeof(text), value).ptr)
             : "NaN";
}

// An array of what `element` says of each item.
template <typename Items, typename Element>
std::string Array(const char* name, const Items& items, Element element) {
  std::string text;
  for (const auto& item : items) text += StrCat(text.empty() ? "" : ", ", element(item));
  return StrCat("array ", name, "[", items.size(), "] = [", text, "]\n");
}

std::string DataBlock(const char* name, size_t chart, size_t run, const Curve& curve) {
  std::string text = StrCat("$", name, chart + 1, "x", run + 1, " << END\n");
  for (const Point& point : curve) text += Exact(point.x) + " " + Exact(point.y) + "\n";
  return text + "END\n";
}

}  // namespace

std::string FigureScript(const Figure& figure, const std::string& path) {
  const bool png = path.ends_with(".png");
  // gnuplot writes "&#x" to an SVG as it is, for characters given by their number, and every other
  // '&' as "&amp;".
  const auto quoted = [png](std::string text) {
    constexpr std::string_view kNumber = "&#x", kItself = "&#x26;#x";
    for (size_t at = 0; !png && (at = text.find(kNumber, at)) != text.npos; at += kItself.size()) {
      text.replace(at, kNumber.size(), kItself);
    }
    return GnuplotText(text);
  };
  const auto single = [&](const char* name, const std::string& text) {
    return StrCat(name, " = ", quoted(text), "\n");
  };
  const auto texts = [&](const char* name, std::string Chart::*text) {
    return Array(name, figure.charts, [=](const Chart& c) { return quoted(c.*text); });
  };
  const auto x = [&](const char* name, auto number) {
    return Array(name, figure.charts, [=](const Chart& c) { return Exact(c.x.*number); });
  };
  const auto y = [&](const char* name, auto number) {
    return Array(name, figure.charts,
                 [=](const Chart& c) { return Exact(c.y.value_or(AxisRange()).*number); });
  };
  std::string script = StrCat(
      "set encoding utf8\npng = ", png ? 1 : 0, "\nruns = ", figure.runs.size(),
      "\ncharts = ", figure.charts.size(), "\nthin_opacity = ", figure.thin_opacity, "\n",
      single("thin_text", figure.thin_text), single("line_text", figure.line_text),
      single("markers_text", figure.markers_text), single("footnote", figure.footnote),
      Array("name", figure.runs, quoted), texts("title", &Chart::title),
      texts("x_label", &Chart::x_label), texts("y_label", &Chart::y_label),
      x("x_low", &AxisRange::low), x("x_high", &AxisRange::high), x("x_base", &AxisRange::log_base),
      y("y_low", &AxisRange::low), y("y_high", &AxisRange::high), y("y_base", &AxisRange::log_base),
      Array("recorded", figure.charts, [](const Chart& c) { return c.y ? 1 : 0; }));
  for (size_t c = 0; c < figure.charts.size(); ++c) {
    for (size_t i = 0; i < figure.runs.size(); ++i) {
      const ChartCurves& curves = figure.charts[c].runs.at(i);
      script += DataBlock("thin", c, i, curves.thin) + DataBlock("line", c, i, curves.line) +
                DataBlock("markers", c, i, curves.markers);
    }
  }
  return script + kDraw;
}

namespace {

constexpr size_t kNameBytes = 40;
// Twice the number of pixels: more points make no visible difference.
constexpr size_t kThinPoints = 1800;
// The moving average spans a fortieth of the run.
constexpr int kSmoothParts = 40;

// Units in which the values of an axis up to `most` are readable.
struct Unit {
  const char* name;
  double size;
};
Unit TimeUnit(double most) {
  if (most < 300) return {"s", 1};
  if (most < 3 * 3600) return {"min", 60};
  if (most < 3 * 86400) return {"h", 3600};
  return {"days", 86400};
}
Unit IterationUnit(double most) {
  if (most < 1e4) return {"", 1};
  if (most < 1e7) return {" (thousands)", 1e3};
  return {" (millions)", 1e6};
}

// ---- Ranges ----

// Widens ends that a figure cannot distinguish.
AxisRange Widened(double low, double high, int log_base = 0) {
  if (high - low > 1e-9 * std::abs(low + high)) return {low, high, log_base};
  const double around = low + high == 0 ? 1 : 0.05 * std::abs(low + high);
  return {low - around, high + around, log_base};
}

// Finite values of the curves named, ascending.
std::vector<double> SortedValues(const Chart& chart, std::vector<Curve ChartCurves::*> curves) {
  std::vector<double> values;
  for (const ChartCurves& run : chart.runs) {
    for (const auto curve : curves) {
      for (const Point& point : run.*curve) {
        if (std::isfinite(point.y)) values.push_back(point.y);
      }
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

// `sorted` is not empty.
double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

// The x of all curves; low > high if there are none.
AxisRange ExtentOfX(const std::vector<RunCurves>& runs, CurveSet RunCurves::*set) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  AxisRange extent{kInfinity, -kInfinity};
  for (const RunCurves& run : runs) {
    const CurveSet& curves = run.*set;
    for (const Curve* curve : {&curves.train_loss, &curves.test_loss, &curves.test_accuracy}) {
      if (curve->empty()) continue;
      extent.low = std::min(extent.low, curve->front().x);
      extent.high = std::max(extent.high, curve->back().x);
    }
  }
  return extent;
}

// From 0 unless all values are far from it.
AxisRange RangeOfX(AxisRange extent, double unit) {
  double low = extent.low / unit, high = extent.high / unit;
  if (low > high) return {};
  if (low > 0 && (low < 0.5 * high || low == high)) low = 0;
  if (low == high) high = low + 1;
  // A margin keeps the last marker inside.
  return Widened(low, high + 0.015 * (high - low));
}

// Logarithmic unless a mean or a test is <= 0. Noise of single values, and losses far above those
// of the first iterations, do not extend it.
std::optional<AxisRange> RangeOfLoss(const Chart& chart) {
  const auto core = SortedValues(chart, {&ChartCurves::line, &ChartCurves::markers});
  const auto single = SortedValues(chart, {&ChartCurves::thin});
  if (core.empty()) return std::nullopt;
  double low = core.front(), high = core.back(), start = 0;
  const bool logarithmic = low > 0;
  for (const ChartCurves& run : chart.runs) {
    for (const Curve* curve : {&run.line, &run.markers}) {
      if (!curve->empty()) start = std::max(start, curve->front().y);
    }
  }
  if (start > 0) high = std::min(high, std::max(20 * start, 10 * low));
  if (!single.empty()) {
    const double below = Quantile(single, 0.02);
    low = std::min(low, logarithmic ? std::max(below, low / 4) : below);
    high = std::max(high, std::min(Quantile(single, 0.98), 3 * high));
  }
  if (logarithmic) {
    const double margin = std::pow(high / low, 0.05);
    return Widened(low / margin, high * margin, 10);
  }
  const double margin = 0.05 * (high - low);
  return Widened(low - margin, high + margin);
}

// In percent; of all tests.
std::optional<AxisRange> RangeOfAccuracy(const Chart& chart) {
  const auto values = SortedValues(chart, {&ChartCurves::markers});
  if (values.empty()) return std::nullopt;
  const double low = values.front(), high = values.back();
  const double margin = high > low ? 0.08 * (high - low) : 1;
  return Widened(std::max(low - margin, std::min(low, 0.0)),
                 std::min(high + margin, std::max(high, 100.0)));
}

// ---- Curves ----

Curve Divided(Curve curve, double unit) {
  for (Point& point : curve) point.x /= unit;
  return curve;
}

// Keeps at most `most` of the tests, because more markers would overlap; always the last one.
void Thin(size_t most, Curve* tests) {
  const size_t stride = (tests->size() + most - 1) / most;
  Curve kept;
  for (size_t i = tests->size(); i > 0; i -= std::min(i, stride)) kept.push_back((*tests)[i - 1]);
  tests->assign(kept.rbegin(), kept.rend());
}

// Puts points outside the range, such as those of a diverged run, at its edge.
void Clamp(const AxisRange& range, ChartCurves* run) {
  for (Curve* curve : {&run->thin, &run->line, &run->markers}) {
    for (Point& point : *curve) {
      if (!std::isnan(point.y)) point.y = std::clamp(point.y, range.low, range.high);
    }
  }
}

// Adds loss and accuracy over the same x axis.
void AddRow(const std::vector<RunCurves>& runs, CurveSet RunCurves::*set, const std::string& over,
            const std::string& x_label, const AxisRange& extent, double unit, Figure* figure) {
  Chart loss{"Loss over " + over, x_label, "Loss (log scale)", {}, {}, {}};
  Chart accuracy{"Test accuracy over " + over, x_label, "Test accuracy (%)", {}, {}, {}};
  for (const RunCurves& run : runs) {
    const CurveSet& curves = run.*set;
    const Curve train = Divided(curves.train_loss, unit);
    const Curve tests = Divided(curves.test_accuracy, unit);
    loss.runs.push_back({Envelope(train, kThinPoints), Smooth(train, kSmoothParts),
                         Divided(curves.test_loss, unit)});
    accuracy.runs.push_back({{}, tests, tests});
  }
  loss.x = accuracy.x = RangeOfX(extent, unit);
  loss.y = RangeOfLoss(loss);
  if (loss.y && !loss.y->log_base) loss.y_label = "Loss";
  accuracy.y = RangeOfAccuracy(accuracy);
  for (Chart* chart : {&loss, &accuracy}) {
    for (ChartCurves& run : chart->runs) {
      Thin(runs.size() <= 3 ? 30 : 14, &run.markers);
      if (chart->y) Clamp(*chart->y, &run);
      if (chart != &loss || run.line.size() != 1) continue;
      const Point mean = run.line[0];  // becomes a short dash
      run.line.push_back({mean.x + 0.008 * (loss.x.high - loss.x.low), mean.y});
    }
    figure->charts.push_back(std::move(*chart));
  }
}

// ---- Legend ----

std::string LegendText(const RunCurves& run, const Unit& time) {
  std::string text = OneLine(run.name);
  if (text.size() > kNameBytes) text = StrCat(CutText(text, kNameBytes - 1), "\u2026");
  if (run.solvers > 0) {
    text += StrCat(" (", run.solvers, run.solvers == 1 ? " solver)" : " solvers)");
  }
  if (!run.last) return text + ": no test accuracy recorded";
  char result[200];
  const auto& [percent, iteration, seconds] = *run.last;
  std::snprintf(result, sizeof(result), ": final test accuracy %.2f %% (iteration %lld, %.1f %s)",
                percent, static_cast<long long>(iteration), seconds / time.size, time.name);
  text += result;
  if (run.best->percent > percent) {
    std::snprintf(result, sizeof(result), ", best %.2f %% (iteration %lld)", run.best->percent,
                  static_cast<long long>(run.best->iteration));
    text += result;
  }
  return text;
}

}  // namespace

Figure PlotRuns(const std::vector<Run>& runs) {
  std::vector<RunCurves> curves;
  for (const Run& run : runs) curves.push_back(MakeCurves(run));
  const AxisRange times = ExtentOfX(curves, &RunCurves::by_time);
  const AxisRange iterations = ExtentOfX(curves, &RunCurves::by_iteration);
  if (times.low > times.high) {
    throw Error("nothing to plot: the runs given hold no training loss and no test");
  }
  const Unit time = TimeUnit(times.high), iteration = IterationUnit(iterations.high);
  Figure figure{{}, "training loss", "its moving average", "test", {}, "", 1};
  // More runs make the noise paler.
  figure.thin_opacity = std::clamp(0.7 / static_cast<double>(runs.size()), 0.06, 0.22);
  for (const RunCurves& run : curves) figure.runs.push_back(LegendText(run, time));
  AddRow(curves, &RunCurves::by_time, "wall time", StrCat("Wall time (", time.name, ")"), times,
         time.size, &figure);
  AddRow(curves, &RunCurves::by_iteration, "iterations", StrCat("Iteration", iteration.name),
         iterations, iteration.size, &figure);
  return figure;
}

}  // namespace millrace::inline metrics
