// A whole terminal that shows a text, which `millrace top` replaces again and again.
#ifndef MILLRACE_TOOLS_SCREEN_H_
#define MILLRACE_TOOLS_SCREEN_H_

#include <termios.h>

#include <string>

namespace millrace {

// `text` for a terminal of that size: longer lines are cut at its right edge, and of more lines the
// last one says how many are missing.
std::string FitScreen(const std::string& text, int columns, int rows);

// The terminal of standard output. While an object exists, keys are read at once and are not shown,
// and SIGINT, SIGTERM and SIGHUP end the display instead of the program. At most one at a time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces what the terminal shows.
  void Show(const std::string& text);
  // Waits. Returns true at once if the user ends the display: with 'q', or by one of the signals.
  bool Ends(double seconds);

 private:
  bool reads_keys_ = false;  // standard input is a terminal, too
  termios before_ = {};
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_SCREEN_H_
