#include "metrics/svg.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace millrace {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// The length of the well-formed UTF-8 sequence at the front, 0 if there is none. Sets `code` to its
// code point.
size_t Decode(std::string_view text, uint32_t* code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || lead > 0xf4 || text.size() < length) return 0;
  *code = length == 1 ? lead : lead & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < kSmallest[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

bool AllowedInXml(uint32_t code) {
  return (code >= 0x20 && code != 0x7f && code != 0xfffe && code != 0xffff) || code == '\t';
}

}  // namespace

std::string XmlText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = Decode(text, &code);
    const std::string_view bytes = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(bytes.size());
    if (length == 0 || !AllowedInXml(code)) {
      out += kReplacement;
    } else if (code == '&') {
      out += "&amp;";
    } else if (code == '<') {
      out += "&lt;";
    } else if (code == '>') {
      out += "&gt;";
    } else if (code == '"') {
      out += "&quot;";
    } else {
      out += bytes;
    }
  }
  return out;
}

std::string Coordinate(double value) {
  // The bounds are beyond any page and keep the text short for any value.
  const double bounded = std::isfinite(value) ? std::clamp(value, -1e5, 1e5) : 0;
  char text[32];
  const double rounded = std::round(bounded * 100) / 100;
  const auto end = std::to_chars(text, text + sizeof(text), rounded == 0 ? 0.0 : rounded,
                                 std::chars_format::fixed);
  return std::string(text, end.ptr);
}

size_t CharacterCount(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) {
    uint32_t code = 0;
    text.remove_prefix(std::max<size_t>(Decode(text, &code), 1));
  }
  return count;
}

std::string Shortened(std::string_view text, size_t characters) {
  if (CharacterCount(text) <= characters) return std::string(text);
  std::string_view rest = text;
  for (size_t i = 0; i + 1 < characters; ++i) {
    uint32_t code = 0;
    rest.remove_prefix(std::max<size_t>(Decode(rest, &code), 1));
  }
  return std::string(text.substr(0, text.size() - rest.size())) + "\xe2\x80\xa6";
}

Svg::Svg(double width, double height, const std::string& title) {
  out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  Open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
               {"width", Coordinate(width)},
               {"height", Coordinate(height)},
               {"viewBox", StrCat("0 0 ", Coordinate(width), " ", Coordinate(height))},
               {"font-family", "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"}});
  out_ += StrCat("<title>", XmlText(title), "</title>\n");
  Element("rect",
          {{"width", Coordinate(width)}, {"height", Coordinate(height)}, {"fill", "white"}});
}

void Svg::Write(const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    out_ += StrCat(" ", name, "=\"", XmlText(value), "\"");
  }
}

void Svg::Open(const char* element, const Attributes& attributes) {
  out_ += StrCat("<", element);
  Write(attributes);
  out_ += ">\n";
}

void Svg::Close(const char* element) { out_ += StrCat("</", element, ">\n"); }

void Svg::Element(const char* element, const Attributes& attributes) {
  out_ += StrCat("<", element);
  Write(attributes);
  out_ += "/>\n";
}

void Svg::Line(double x1, double y1, double x2, double y2, const Attributes& attributes) {
  Attributes all = {{"x1", Coordinate(x1)},
                    {"y1", Coordinate(y1)},
                    {"x2", Coordinate(x2)},
                    {"y2", Coordinate(y2)}};
  all.insert(all.end(), attributes.begin(), attributes.end());
  Element("line", all);
}

void Svg::Text(double x, double y, double size, const char* anchor, const std::string& text,
               const Attributes& attributes) {
  Attributes all = {{"x", Coordinate(x)},
                    {"y", Coordinate(y)},
                    {"font-size", Coordinate(size)},
                    {"text-anchor", anchor}};
  all.insert(all.end(), attributes.begin(), attributes.end());
  out_ += "<text";
  Write(all);
  out_ += StrCat(">", XmlText(text), "</text>\n");
}

std::string Svg::Finish() && {
  Close("svg");
  return std::move(out_);
}

}  // namespace millrace
