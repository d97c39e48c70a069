// The metrics file of a run (`--metrics=run.jsonl`): one JSON object per line, a MetricsRow of
// proto/metrics.proto with its field names. A resumed run appends to the file of the run that it
// continues.
#ifndef MILLRACE_METRICS_METRICS_WRITER_H_
#define MILLRACE_METRICS_METRICS_WRITER_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "proto/metrics.pb.h"

namespace millrace::inline metrics {

// Receives the rows of a run. Thread-safe.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void Write(const MetricsRow& row) = 0;
};

// Appends rows to a file. Thread-safe.
class MetricsWriter : public MetricsSink {
 public:
  // Creates or continues the file. Removes an unfinished row that a killed run left at its end.
  // Throws Error naming `path` if the file cannot be written or holds anything else than metrics.
  explicit MetricsWriter(const std::string& path);
  // Logs the number of lost rows, if any.
  ~MetricsWriter() override;
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Passes the row to the operating system before it returns. A row that cannot be written (disk
  // full) does not stop the training: the reason is logged once, the row is lost, and a part
  // already written is removed.
  void Write(const MetricsRow& row) override;

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

// Parses one line. Throws Error that begins with `place` ("run.jsonl:7") and states the error and
// the expected format.
MetricsRow ParseMetricsLine(std::string_view line, const std::string& place);

// All rows of a file, or of text in memory; `name` stands for the file in errors. Ignores a last
// line without a line break that cannot be parsed, which a killed run leaves. Throws Error for any
// other line that is not a row, and if there are no rows.
std::vector<MetricsRow> ReadMetrics(const std::string& path);
std::vector<MetricsRow> ParseMetrics(std::string_view text, const std::string& name);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_METRICS_WRITER_H_
