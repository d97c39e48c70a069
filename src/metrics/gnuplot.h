// Runs gnuplot (Debian package gnuplot-nox), which draws all figures.
#ifndef MILLRACE_METRICS_GNUPLOT_H_
#define MILLRACE_METRICS_GNUPLOT_H_

#include <string>

#include "millrace/export.h"

namespace millrace::inline metrics {

// Runs gnuplot without a shell and without the user's start-up files. `script` is its standard
// input, so paths never appear in it; the picture that it writes to standard output replaces the
// file `path` when gnuplot has succeeded. Throws Error and leaves `path` as it was if gnuplot is
// not installed (the message names the package) or fails. Blocks; thread-safe.
MILLRACE_API void RunGnuplot(const std::string& script, const std::string& path);

// `text` as a string literal of a gnuplot script, which gnuplot cannot take for anything else:
// octal escapes stand for all ASCII characters other than letters and spaces. (Within
// double quotes gnuplot runs commands in backquotes; within single quotes version 5.4 misreads
// quotes.) Characters that are not printable become '?'. Commands that show the text need
// "noenhanced".
std::string GnuplotText(const std::string& text);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_GNUPLOT_H_
