// Numbers of a running process that others can watch: a board of named counters and
// gauges in a file under /dev/shm, which the process writes without locks and anybody
// who may read the file reads at any time. docs/operations.md has the bytes.
#ifndef MILLRACE_MONITOR_BOARD_H_
#define MILLRACE_MONITOR_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// A number's name and kind. Names are cut to what the file has room for: 47 bytes of
// a group, 31 of a name.
struct BoardEntry {
  enum class Kind : uint32_t { kCount = 0, kGauge = 1 };  // kCount only grows
  std::string group, name;
  Kind kind = Kind::kCount;
};

// The writer's end. Set may be called from any thread.
class Board {
 public:
  // FOLDER/millrace_board.PID, readable by this user; replaces one that an earlier
  // process of this pid left. `title` says what runs, at most 95 bytes of it. Throws
  // Error if the file cannot be made.
  Board(const std::string& title, const std::vector<BoardEntry>& entries,
        const std::string& folder = "/dev/shm");
  // Removes the file.
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void Set(size_t entry, double value);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

// What a board shows at one moment.
struct BoardReading {
  int pid = 0;
  std::string title;
  std::vector<BoardEntry> entries;
  std::vector<double> values;  // by entry

  // The value of an entry; `fallback` if there is none of that name.
  double Value(const std::string& group, const std::string& name, double fallback = 0) const;
  // The groups, each once, in the order of their entries.
  std::vector<std::string> Groups() const;
};

// The boards of all living processes whose files this user may read, by pid. Files
// that are no boards are passed over; those that dead processes left are removed.
std::vector<BoardReading> ReadBoards(const std::string& folder = "/dev/shm");

}  // namespace millrace

#endif  // MILLRACE_MONITOR_BOARD_H_
