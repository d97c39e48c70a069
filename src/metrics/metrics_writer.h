// The metrics file of a run (`--metrics=run.jsonl`): one JSON object a line, a
// MetricsRow of proto/metrics.proto with its field names. A resumed run appends
// to the file of the run that it continues.
#ifndef MILLRACE_METRICS_METRICS_WRITER_H_
#define MILLRACE_METRICS_METRICS_WRITER_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "proto/metrics.pb.h"

namespace millrace {

// Appends rows to a file. Thread-safe.
class MetricsWriter {
 public:
  // Creates the file, or continues it: a row at its end that a killed run left
  // unfinished is taken off. Throws Error naming `path` when it cannot be
  // written, or holds something else than metrics.
  explicit MetricsWriter(const std::string& path);
  // Logs how many rows were lost, if any were.
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Hands the row to the system before it returns. Training is worth more than
  // its log: when the row cannot be written (a full disk), the reason goes to
  // the log, once, and the row is lost; a part of it is taken back.
  void Write(const MetricsRow& row);

 private:
  void Continue();
  bool Put(std::string_view line);

  const std::string path_;
  int fd_;
  bool regular_ = true;  // not a pipe or a device
  std::mutex mutex_;
  int64_t lost_ = 0;
};

// The row as one line of JSON, without a line break.
std::string MetricsLine(const MetricsRow& row);

// One line back. Throws Error beginning with `place` ("run.jsonl:7") that says
// what is wrong and what was expected.
MetricsRow ParseMetricsLine(std::string_view line, const std::string& place);

// All rows of a file, or of text in memory that `name` stands for in errors. A
// last line without a line break that cannot be parsed is what a killed run
// leaves: it is passed over. Throws Error for any other line that is no row, and
// when there is no row at all.
std::vector<MetricsRow> ReadMetrics(const std::string& path);
std::vector<MetricsRow> ParseMetrics(std::string_view text, const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_METRICS_METRICS_WRITER_H_
