// Reads the counter files (metrics/registry.h) of the processes of this machine, from a folder
// where all users may create files.
#ifndef MILLRACE_METRICS_COUNTER_FILE_READER_H_
#define MILLRACE_METRICS_COUNTER_FILE_READER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "metrics/metrics_reading.h"
#include "metrics/registry.h"
#include "millrace/export.h"

namespace millrace {

// The contents of a counter file at one moment.
struct CounterFileReading : MetricsReading {
  int pid = 0;
  uid_t user = 0;     // the file's owner
  std::string title;  // any bytes
};

// Reads the counter files of the running processes of this user, or of all users if this user is
// root, by pid. Removes files that ended processes of this user left. `skipped`, if not null,
// receives a line with the reason for each counter file that is not read: the first 16, then the
// number of others. Reads at most 64 MiB in total, this user's files first.
MILLRACE_API std::vector<CounterFileReading> ReadCounterFiles(
    const std::string& folder = MetricsRegistry::kFolder,
    std::vector<std::string>* skipped = nullptr);

}  // namespace millrace

#endif  // MILLRACE_METRICS_COUNTER_FILE_READER_H_
