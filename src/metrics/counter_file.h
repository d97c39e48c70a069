// Numbers of a running process that others can watch: a board of named counters and
// gauges in a counter file under /dev/shm, which the process writes without locks and its user
// reads at any time. docs/operations.md has the bytes.
#ifndef MILLRACE_METRICS_COUNTER_FILE_H_
#define MILLRACE_METRICS_COUNTER_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace millrace {

// A number's name and kind. Names are cut to what the file has room for: 47 bytes of
// a group, 31 of a name.
struct CounterEntry {
  enum class Kind : uint32_t { kCount = 0, kGauge = 1 };  // kCount only grows
  std::string group, name;
  Kind kind = Kind::kCount;
};

// The writer's end. Set may be called from any thread.
class CounterFile {
 public:
  // FOLDER/millrace_board.PID, of mode 0600; replaces one of this user that an earlier process
  // of this pid left. `title` says what runs, at most 95 bytes of it. Throws Error if the file
  // cannot be made, or if its name is taken by another user's file or by no regular file: this
  // process maps its own new file only, so no other user can cut it short.
  CounterFile(const std::string& title, const std::vector<CounterEntry>& entries,
              const std::string& folder = "/dev/shm");
  // Removes the file, unless its name leads elsewhere by now.
  ~CounterFile();
  CounterFile(const CounterFile&) = delete;
  CounterFile& operator=(const CounterFile&) = delete;

  void Set(size_t entry, double value);
  const std::string& path() const { return path_; }

 private:
  void Publish() const;

  const std::string path_;
  FileDescriptor file_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

// What a board shows at one moment.
struct CounterFileReading {
  int pid = 0;
  uid_t user = 0;     // the file's owner
  std::string title;  // like all text any bytes: OneLine makes it fit for a terminal
  std::vector<CounterEntry> entries;
  std::vector<double> values;  // by entry

  // The value of the first entry of that name; `fallback` if there is none. Looks through all.
  double Value(const std::string& group, const std::string& name, double fallback = 0) const;
  // The groups, each once, in the order of their entries.
  std::vector<std::string> Groups() const;
};

// The boards of the living processes of this user, or of all users if this one is root, by pid.
// Files that dead processes of this user left are removed. `skipped`, if not null, gets a line
// for each file that has a board's name and is not read, with the reason; of many the first 16
// and how many more there are. No more than 64 MiB are read, this user's files first.
std::vector<CounterFileReading> ReadCounterFiles(const std::string& folder = "/dev/shm",
                                                 std::vector<std::string>* skipped = nullptr);

}  // namespace millrace

#endif  // MILLRACE_METRICS_COUNTER_FILE_H_
