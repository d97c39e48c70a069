// The format of a counter file, as described in docs/operations.md, and its name. Shared by the
// writer (registry.cc) and the reader (counter_file_reader.cc).
#ifndef MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_
#define MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::inline metrics::counter_file_layout {

constexpr char kMagic[8] = {'M', 'I', 'L', 'L', 'C', 'N', 'T', '1'};
constexpr uint32_t kVersion = 1;
// Followed by the pid in decimal digits.
constexpr char kPrefix[] = "millrace_counters.";

// Text ends with a zero byte, and zeros fill the rest of its field.
struct Head {
  char magic[8];
  uint32_t version;
  int32_t pid;
  uint64_t start_time;
  // Complete rows; they grow while the file is live. A row is complete before it is counted.
  std::atomic<uint32_t> families, metrics;
  char title[96];
  char reserved[128];
};
// What the metrics of one name have in common.
struct FamilyRow {
  char name[64];
  char unit[16];
  uint32_t type;
  char reserved[4];
  char help[168];
};
struct MetricRow {
  uint32_t family;  // index of its row
  char reserved[4];
  char labels[248];  // key, zero, value, zero; then the next label; an empty key ends them
};
static_assert(sizeof(Head) == 256 && sizeof(FamilyRow) == 256 && sizeof(MetricRow) == 256);

// The file has room for these numbers of rows. Pages without rows take no memory.
constexpr uint32_t kMaxFamilies = 255;
constexpr uint32_t kMaxMetrics = 32768;

// Offsets in the file. The values, 8 bytes each and in the order of the metrics' rows, lie apart
// from the text, so that the thread that writes them touches few cache lines.
constexpr size_t kFamiliesAt = sizeof(Head);
constexpr size_t kValuesAt = kFamiliesAt + kMaxFamilies * sizeof(FamilyRow);
constexpr size_t kMetricsAt = kValuesAt + kMaxMetrics * sizeof(uint64_t);
constexpr size_t kFileBytes = kMetricsAt + kMaxMetrics * sizeof(MetricRow);
static_assert(kValuesAt == 65536 && kMetricsAt == 327680 && kFileBytes == 8716288);

}  // namespace millrace::inline metrics::counter_file_layout

#endif  // MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_
