// Writes SVG: shapes and text with presentation attributes, without style sheets or references, so
// that all renderers draw the same.
#ifndef MILLRACE_METRICS_SVG_H_
#define MILLRACE_METRICS_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Text for XML content and attribute values. Escapes markup, and replaces input that XML 1.0 does
// not allow (control characters, broken UTF-8) by U+FFFD.
std::string XmlText(std::string_view text);

// A coordinate with at most two decimals.
std::string Coordinate(double value);

// `text`, shortened to at most `characters` characters (not bytes). The last one is an ellipsis if
// characters are left out.
std::string Shortened(std::string_view text, size_t characters);
// The number of characters (not bytes).
size_t CharacterCount(std::string_view text);

// Collects elements. Lengths are in pixels. Not thread-safe.
class Svg {
 public:
  // The attributes of one element. Values are escaped.
  using Attributes = std::vector<std::pair<const char*, std::string>>;

  Svg(double width, double height, const std::string& title);

  void Open(const char* element, const Attributes& attributes);
  void Close(const char* element);
  void Element(const char* element, const Attributes& attributes);
  void Line(double x1, double y1, double x2, double y2, const Attributes& attributes);
  // `anchor` is "start", "middle" or "end".
  void Text(double x, double y, double size, const char* anchor, const std::string& text,
            const Attributes& attributes = {});

  // Returns the complete document.
  std::string Finish() &&;

 private:
  void Write(const Attributes& attributes);

  std::string out_;
};

}  // namespace millrace

#endif  // MILLRACE_METRICS_SVG_H_
