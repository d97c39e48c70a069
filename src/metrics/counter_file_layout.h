// The format of a counter file, as described in docs/operations.md, and its name. Shared by the
// writer (counter_file.cc) and the reader (counter_file_reader.cc).
#ifndef MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_
#define MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::counter_file_layout {

constexpr char kMagic[8] = {'M', 'I', 'L', 'L', 'B', 'R', 'D', '1'};
// Followed by the pid in decimal digits.
constexpr char kPrefix[] = "millrace_board.";
constexpr uint32_t kMostEntries = 65536;

struct Head {
  char magic[8];
  uint32_t entries;
  int32_t pid;
  uint64_t start_time;
  char reserved[8];
  char title[96];
};
struct Row {
  char group[48];
  char name[32];
  uint32_t kind;
  char reserved[4];
  std::atomic<uint64_t> value;  // the bits of a double
  char reserved_too[32];
};
static_assert(sizeof(Head) == 128 && sizeof(Row) == 128);

constexpr size_t FileBytes(uint32_t entries) { return sizeof(Head) + entries * sizeof(Row); }
constexpr size_t kMostBytes = FileBytes(kMostEntries);

}  // namespace millrace::counter_file_layout

#endif  // MILLRACE_METRICS_COUNTER_FILE_LAYOUT_H_
