#include "tools/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace millrace {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t signalled = 0;

// `line` is UTF-8; each character takes one column.
std::string_view CutColumns(std::string_view line, int columns) {
  size_t end = 0;
  for (int used = 0; end < line.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(line[end]) & 0xc0) != 0x80;
    if (begins && used++ == columns) break;
  }
  return line.substr(0, end);
}

}  // namespace

std::string FitScreen(const std::string& text, int columns, int rows) {
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // The last row stays empty: the cursor is there.
  const auto room = static_cast<size_t>(std::max(rows - 1, 1));
  const size_t shown = lines.size() <= room ? lines.size() : room - 1;
  std::string fitted;
  for (size_t i = 0; i < shown; ++i) fitted += StrCat(CutColumns(lines[i], columns), "\n");
  if (shown == lines.size()) return fitted;
  const std::string more = StrCat("and ", lines.size() - shown, " more lines");
  return StrCat(fitted, CutColumns(more, columns), "\n");
}

Screen::Screen() {
  signalled = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { signalled = 1; };
  for (const int number : kSignals) sigaction(number, &action, nullptr);
  reads_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  if (!reads_keys_) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

Screen::~Screen() {
  if (reads_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int number : kSignals) signal(number, SIG_DFL);
}

void Screen::Show(const std::string& text) {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::string fitted = FitScreen(text, known ? size.ws_col : 80, known ? size.ws_row : 24);
  std::printf("\033[H\033[2J%s", fitted.c_str());
  std::fflush(stdout);
}

bool Screen::Ends(double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  while (!signalled) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    // In steps, for a signal that comes just before the call.
    constexpr int64_t kStepMs = 100;
    pollfd key = {reads_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&key, 1, static_cast<int>(std::min<int64_t>(left, kStepMs))) <= 0) continue;
    char pressed = 0;
    const ssize_t got = read(STDIN_FILENO, &pressed, 1);
    if (got == 1 && (pressed == 'q' || pressed == 'Q')) return true;
    if (got <= 0) reads_keys_ = false, tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  return true;
}

}  // namespace millrace
