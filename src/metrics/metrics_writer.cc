#include "metrics/metrics_writer.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files/file.h"

namespace millrace::inline metrics {
namespace {

constexpr char kExpected[] =
    "; expected a metrics row such as {\"time\":1.5,\"iter\":\"100\",\"train\":{\"loss\":0.3}}";

// The parser's reason, without the excerpts that it adds on further lines.
std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string MetricsLine(const MetricsRow& row) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(row, &line, options);
  if (!status.ok()) throw Error("metrics row cannot be written as JSON: ", status.ToString());
  return line;
}

MetricsRow ParseMetricsLine(std::string_view line, const std::string& place) {
  MetricsRow row;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(line.data(), line.size()), &row);
  if (!status.ok()) {
    throw Error(place, ": ", FirstLine(std::string(status.message())), kExpected);
  }
  if (!row.has_run() && !row.has_train() && !row.has_test()) {
    throw Error(place, ": a row without run, train or test", kExpected);
  }
  if ((row.has_train() || row.has_test()) && !(row.has_time() && row.has_iter())) {
    throw Error(place, ": a row without time and iter", kExpected);
  }
  return row;
}

std::vector<MetricsRow> ReadMetrics(const std::string& path) {
  return ParseMetrics(ReadFile(path), path);
}

std::vector<MetricsRow> ParseMetrics(std::string_view text, const std::string& name) {
  std::vector<MetricsRow> rows;
  for (int number = 1; !text.empty(); ++number) {
    const size_t length = text.find('\n');
    const std::string_view line = text.substr(0, length);
    const bool finished = length != std::string_view::npos;
    try {
      rows.push_back(ParseMetricsLine(line, StrCat(name, ":", number)));
    } catch (const Error&) {
      if (finished) throw;
    }
    text.remove_prefix(finished ? length + 1 : text.size());
  }
  if (rows.empty()) throw Error(name, ": holds no metrics rows");
  return rows;
}

MetricsWriter::MetricsWriter(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  // A pipe or a terminal may be write-only.
  if (fd_ < 0) fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) throw Error(path, ": cannot be written: ", ErrnoText(errno));
  struct stat status;
  regular_ = fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  try {
    if (regular_ && status.st_size > 0) Continue();
  } catch (...) {
    close(fd_);
    throw;
  }
}

MetricsWriter::~MetricsWriter() {
  close(fd_);
  if (lost_ > 0) LOG(WARNING) << path_ << ": " << lost_ << " metrics rows could not be written";
}

// Checks the first and the last line of an existing file.
void MetricsWriter::Continue() {
  const std::string content = ReadFile(path_);
  const size_t first = std::min(content.find('\n'), content.size());
  try {
    ParseMetricsLine(std::string_view(content).substr(0, first), path_ + ":1");
  } catch (const Error& error) {
    throw Error(error.what(), "; choose another file for the metrics");
  }
  if (content.back() == '\n') return;
  const size_t last = content.rfind('\n') + 1;  // 0 if there is only one line
  try {
    ParseMetricsLine(std::string_view(content).substr(last), path_);
    Put("\n");  // only its line break was missing
  } catch (const Error&) {
    LOG(WARNING) << path_ << ": truncates a partial last row";
    if (ftruncate(fd_, static_cast<off_t>(last)) != 0) {
      throw Error(path_, ": cannot be written: ", ErrnoText(errno));
    }
  }
}

void MetricsWriter::Write(const MetricsRow& row) {
  const std::string line = MetricsLine(row) + "\n";
  std::lock_guard lock(mutex_);
  if (Put(line)) return;
  const int reason = errno;
  if (lost_++ == 0) {
    LOG(ERROR) << path_ << ": metrics cannot be written: " << ErrnoText(reason)
               << "; training goes on without them";
  }
}

// Writes all of `line`. On failure, returns false with errno, and removes a part written to a
// regular file.
bool MetricsWriter::Put(std::string_view line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t put = write(fd_, line.data() + done, line.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;
    done += static_cast<size_t>(put);
  }
  if (done == line.size()) return true;
  const int reason = errno;
  struct stat status;
  if (done > 0 && regular_ && fstat(fd_, &status) == 0) {
    if (ftruncate(fd_, status.st_size - static_cast<off_t>(done)) != 0) {
      LOG(ERROR) << path_ << ": a part of a row stays in it: " << ErrnoText(errno);
    }
  }
  errno = reason;
  return false;
}

}  // namespace millrace::inline metrics
