#include "metrics/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"

namespace millrace {
namespace {

constexpr char kInk[] = "#222222";
constexpr char kPale[] = "#666666";
constexpr char kGrid[] = "#e4e4e4";
constexpr char kMinorGrid[] = "#f3f3f3";

// The palette of Okabe and Ito ("Color Universal Design", 2008) without its yellow, which is hard
// to see on white.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#000000"};
constexpr const char* kDashes[] = {"", "7 3", "2 2", "8 3 2 3"};

// Maps data to pixels.
class Place {
 public:
  Place(const ChartSpec& spec, const Axis& x_axis, const Axis& y_axis)
      : spec_(spec), x_axis_(x_axis), y_axis_(y_axis) {}
  double X(double value) const {
    return spec_.x + spec_.width * Bounded(x_axis_.Fraction(value / spec_.x_unit));
  }
  double Y(double value) const {
    return spec_.y + spec_.height * (1 - Bounded(y_axis_.Fraction(value)));
  }
  bool Inside(const Point& point) const {
    const double x = x_axis_.Fraction(point.x / spec_.x_unit), y = y_axis_.Fraction(point.y);
    return x >= 0 && x <= 1 && y >= 0 && y <= 1;
  }

 private:
  // Values outside the frame are clipped. Far outside, renderers lose precision.
  static double Bounded(double fraction) { return std::clamp(fraction, -2.0, 3.0); }
  const ChartSpec& spec_;
  const Axis& x_axis_;
  const Axis& y_axis_;
};

// Lines through the points, interrupted at gaps. A single point between two gaps becomes a dot
// (lines have round ends).
std::string PathThrough(const Curve& curve, const Place& place) {
  std::string path;
  bool begun = false;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!std::isfinite(curve[i].y)) {
      begun = false;
      continue;
    }
    const std::string x = Coordinate(place.X(curve[i].x)), y = Coordinate(place.Y(curve[i].y));
    path += StrCat(begun ? "L" : "M", x, " ", y);
    const bool alone = !begun && (i + 1 == curve.size() || !std::isfinite(curve[i + 1].y));
    if (alone) path += StrCat("L", x, " ", y);
    begun = true;
  }
  return path;
}

void DrawCurve(const Curve& curve, const Place& place, const char* kind, Svg::Attributes style,
               Svg* svg) {
  const std::string path = PathThrough(curve, place);
  if (path.empty()) return;
  style.insert(style.begin(), {{"class", kind}, {"d", path}, {"fill", "none"}});
  svg->Element("path", style);
}

// At most `most` of the tests, evenly spaced, always including the last one.
Curve Marked(const Curve& points, size_t most) {
  const size_t stride = (points.size() + most - 1) / most;
  Curve marked;
  for (size_t i = points.size(); i > 0; i -= std::min(i, stride)) marked.push_back(points[i - 1]);
  return marked;
}

void DrawGrid(const ChartSpec& spec, const Axis& x_axis, const Axis& y_axis, Svg* svg) {
  const double left = spec.x, right = spec.x + spec.width;
  const double top = spec.y, bottom = spec.y + spec.height;
  const auto across = [&](double value, const char* colour) {
    const double y = bottom - spec.height * y_axis.Fraction(value);
    svg->Line(left, y, right, y, {{"stroke", colour}, {"stroke-width", "1"}});
  };
  for (double value : y_axis.minor()) across(value, kMinorGrid);
  for (const Axis::Tick& tick : y_axis.ticks()) {
    across(tick.value, kGrid);
    const double y = bottom - spec.height * y_axis.Fraction(tick.value);
    svg->Text(left - 8, y + 4, 12, "end", tick.label, {{"class", "y-tick"}, {"fill", kInk}});
  }
  for (const Axis::Tick& tick : x_axis.ticks()) {
    const double x = left + spec.width * x_axis.Fraction(tick.value);
    svg->Line(x, top, x, bottom, {{"stroke", kGrid}, {"stroke-width", "1"}});
    svg->Line(x, bottom, x, bottom + 4, {{"stroke", kInk}, {"stroke-width", "1"}});
    svg->Text(x, bottom + 18, 12, "middle", tick.label, {{"class", "x-tick"}, {"fill", kInk}});
  }
}

void DrawLabels(const ChartSpec& spec, Svg* svg) {
  const double middle = spec.x + spec.width / 2, half = spec.y + spec.height / 2;
  svg->Text(middle, spec.y - 10, 14, "middle", spec.title,
            {{"class", "title"}, {"font-weight", "bold"}, {"fill", kInk}});
  svg->Text(middle, spec.y + spec.height + 38, 13, "middle", spec.x_label,
            {{"class", "x-label"}, {"fill", kInk}});
  const double x = spec.x - 54;
  svg->Text(x, half, 13, "middle", spec.y_label,
            {{"class", "y-label"},
             {"fill", kInk},
             {"transform", StrCat("rotate(-90 ", Coordinate(x), " ", Coordinate(half), ")")}});
}

void DrawCurves(const ChartSpec& spec, const Place& place, const std::vector<ChartCurves>& runs,
                Svg* svg) {
  const std::string clip = spec.id + "-clip";
  svg->Open("clipPath", {{"id", clip}});
  svg->Element("rect", {{"x", Coordinate(spec.x)},
                        {"y", Coordinate(spec.y)},
                        {"width", Coordinate(spec.width)},
                        {"height", Coordinate(spec.height)}});
  svg->Close("clipPath");
  svg->Open("g", {{"clip-path", StrCat("url(#", clip, ")")}});
  // Draws the noise first, so that it hides no other run. More runs make it paler.
  const double opacity = std::clamp(0.7 / static_cast<double>(runs.size()), 0.06, 0.22);
  for (size_t i = 0; i < runs.size(); ++i) {
    DrawCurve(runs[i].raw, place, "raw", RunStyle(i).Line(0.8, opacity), svg);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const double width = runs[i].smooth.size() == 1 ? 5 : 1.8;  // makes a single dot visible
    DrawCurve(runs[i].smooth, place, "smooth", RunStyle(i).Line(width, 1), svg);
    if (spec.join_points) {
      DrawCurve(runs[i].points, place, "tests", RunStyle(i).Line(1.8, 1), svg);
    }
  }
  svg->Close("g");
  // More markers would overlap.
  const size_t most = runs.size() <= 3 ? 30 : 14;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const Point& point : Marked(runs[i].points, most)) {
      if (place.Inside(point)) RunStyle(i).DrawMarker(svg, place.X(point.x), place.Y(point.y));
    }
  }
}

}  // namespace

std::string RunStyle::colour() const { return kColours[index_ % std::size(kColours)]; }

Svg::Attributes RunStyle::Line(double width, double opacity) const {
  Svg::Attributes line = {{"stroke", colour()},
                          {"stroke-width", Coordinate(width)},
                          {"stroke-linejoin", "round"},
                          {"stroke-linecap", "round"}};
  if (opacity < 1) line.push_back({"stroke-opacity", Coordinate(opacity)});
  const std::string dash = kDashes[index_ / std::size(kColours) % std::size(kDashes)];
  if (!dash.empty() && opacity == 1) line.push_back({"stroke-dasharray", dash});
  return line;
}

void RunStyle::DrawMarker(Svg* svg, double x, double y) const {
  // Outlines of about equal area. The white border separates them from their lines.
  static constexpr double kOutlines[5][5][2] = {
      {{-3.3, -3.3}, {3.3, -3.3}, {3.3, 3.3}, {-3.3, 3.3}, {-3.3, -3.3}},
      {{0, -4.6}, {4.3, 3.2}, {-4.3, 3.2}, {0, -4.6}, {0, -4.6}},
      {{0, -4.8}, {4.8, 0}, {0, 4.8}, {-4.8, 0}, {0, -4.8}},
      {{0, 4.6}, {4.3, -3.2}, {-4.3, -3.2}, {0, 4.6}, {0, 4.6}},
      {{-5, -2.2}, {5, -2.2}, {5, 2.2}, {-5, 2.2}, {-5, -2.2}},
  };
  const Svg::Attributes fill = {
      {"class", "marker"}, {"fill", colour()}, {"stroke", "white"}, {"stroke-width", "1"}};
  Svg::Attributes shape;
  const size_t kind = index_ % (std::size(kOutlines) + 1);
  if (kind == 0) {
    shape = {{"cx", Coordinate(x)}, {"cy", Coordinate(y)}, {"r", "3.8"}};
  } else {
    std::string points;
    for (const auto& [dx, dy] : kOutlines[kind - 1]) {
      points += StrCat(points.empty() ? "" : " ", Coordinate(x + dx), ",", Coordinate(y + dy));
    }
    shape = {{"points", points}};
  }
  shape.insert(shape.begin(), fill.begin(), fill.end());
  svg->Element(kind == 0 ? "circle" : "polygon", shape);
}

void DrawChart(const ChartSpec& spec, const Axis& x_axis, const std::optional<Axis>& y_axis,
               const std::vector<ChartCurves>& runs, Svg* svg) {
  svg->Open("g", {{"id", spec.id}});
  if (y_axis) {
    DrawGrid(spec, x_axis, *y_axis, svg);
    DrawCurves(spec, Place(spec, x_axis, *y_axis), runs, svg);
  } else {
    svg->Text(spec.x + spec.width / 2, spec.y + spec.height / 2, 13, "middle", "nothing recorded",
              {{"class", "empty"}, {"fill", kPale}});
  }
  svg->Element("path", {{"d", StrCat("M", Coordinate(spec.x), " ", Coordinate(spec.y), "V",
                                     Coordinate(spec.y + spec.height), "H",
                                     Coordinate(spec.x + spec.width))},
                        {"fill", "none"},
                        {"stroke", kInk},
                        {"stroke-width", "1.2"}});
  DrawLabels(spec, svg);
  svg->Close("g");
}

}  // namespace millrace
