// Runs a program that turns a script on its standard input into a picture on its standard output:
// gnuplot, dot.
#ifndef MILLRACE_BASE_DRAWING_PROGRAM_H_
#define MILLRACE_BASE_DRAWING_PROGRAM_H_

#include <string>
#include <vector>

namespace millrace::inline base {

struct DrawingProgram {
  std::string name;                    // looked up in PATH
  std::vector<std::string> arguments;  // after the name
  std::string purpose;                 // for an error message: "which draws figures"
  std::string package;                 // the Debian package that has it
};

// Runs the program without a shell. `script` is its standard input; the picture that it writes to
// standard output replaces the file `path` when the program has succeeded. Throws Error and leaves
// `path` as it was if the program is not installed (the message names the package) or fails (the
// message has the last line of its standard error). Blocks; thread-safe.
void Draw(const DrawingProgram& program, const std::string& script, const std::string& path);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_DRAWING_PROGRAM_H_
