// Event files for TensorBoard (`--tensorboard=DIR`).
//
// A file is a sequence of records: the length of an event (uint64), its checksum (uint32), the
// event (proto/tensorboard.proto), and its checksum, all little-endian. A checksum is a CRC-32C,
// rotated right by 15 bits, plus 0xa282ead8.
#ifndef MILLRACE_METRICS_TENSORBOARD_WRITER_H_
#define MILLRACE_METRICS_TENSORBOARD_WRITER_H_

#include <mutex>
#include <string>

#include "metrics/metrics_writer.h"

namespace millrace::inline metrics {

// Writes loss, learning rate and rate as train/..., outputs of test net N as test/... (N = 0) or
// testN/.... Thread-safe.
class TensorboardWriter : public MetricsSink {
 public:
  // Makes `folder`, and a new file in it. Throws Error naming the path if that is impossible.
  explicit TensorboardWriter(const std::string& folder);
  ~TensorboardWriter() override;

  // A row that cannot be written does not stop the training: the reason is logged once.
  void Write(const MetricsRow& row) override;

  const std::string& path() const { return path_; }

 private:
  void Put(const std::string& event);

  std::string path_;
  int fd_ = -1;
  std::mutex mutex_;
  bool failed_ = false;
};

// `event` as a record.
std::string TensorboardRecord(const std::string& event);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_TENSORBOARD_WRITER_H_
