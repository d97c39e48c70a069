// Counters and gauges of a running process that other processes can watch: a counter file under
// /dev/shm, which the process writes without locks and its user can read at any time.
// docs/operations.md describes the format.
#ifndef MILLRACE_METRICS_COUNTER_FILE_H_
#define MILLRACE_METRICS_COUNTER_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "millrace/export.h"

namespace millrace {

// Name and kind of a number. The file truncates names: to 47 bytes for a group, 31 for a name.
struct CounterEntry {
  enum class Kind : uint32_t { kCount = 0, kGauge = 1 };  // kCount never decreases
  std::string group, name;
  Kind kind = Kind::kCount;
};

// The writer. Any thread may call Set.
class CounterFile {
 public:
  // Creates FOLDER/millrace_board.PID with mode 0600; replaces a file of this user that an earlier
  // process with this pid left. `title` describes the run; at most 95 bytes are stored. Throws
  // Error if the file cannot be created, or if its name belongs to another user's file or is not a
  // regular file. This process maps only its own new file, so no other user can truncate it.
  CounterFile(const std::string& title, const std::vector<CounterEntry>& entries,
              const std::string& folder = "/dev/shm");
  // Removes the file, unless its name refers to another file by now.
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

// The contents of a counter file at one moment.
struct CounterFileReading {
  int pid = 0;
  uid_t user = 0;     // the file's owner
  std::string title;  // any bytes, as all text here: OneLine makes it safe for a terminal
  std::vector<CounterEntry> entries;
  std::vector<double> values;  // one per entry

  // The value of the first entry of that name, or `fallback` if there is none. Linear in the
  // entries.
  double Value(const std::string& group, const std::string& name, double fallback = 0) const;
  // Each group once, in the order of the entries.
  std::vector<std::string> Groups() const;
};

// Reads the counter files of the running processes of this user, or of all users if this user is
// root, by pid. Removes files that ended processes of this user left. `skipped`, if not null,
// receives a line with the reason for each counter file that is not read: the first 16, then the
// number of others. Reads at most 64 MiB in total, this user's files first.
MILLRACE_API std::vector<CounterFileReading> ReadCounterFiles(
    const std::string& folder = "/dev/shm", std::vector<std::string>* skipped = nullptr);

}  // namespace millrace

#endif  // MILLRACE_METRICS_COUNTER_FILE_H_
