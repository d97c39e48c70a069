#include "metrics/gnuplot.h"

#include <cctype>

#include "base/drawing_program.h"
#include "base/error.h"

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

}  // namespace millrace::inline metrics
