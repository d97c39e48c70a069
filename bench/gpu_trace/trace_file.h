// The trace file of GPU work: Chrome trace events, one a line, which Perfetto and
// bench/gpu_timeline.py read. A file without its end is valid, so a killed process leaves what it
// has written.
#ifndef MILLRACE_BENCH_GPU_TRACE_TRACE_FILE_H_
#define MILLRACE_BENCH_GPU_TRACE_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace millrace::gpu_trace {

// A kernel's name without its return type, parameters and namespaces, at most 120 characters.
// `mangled`: as the compiler writes it; names of C functions remain.
std::string ShortKernelName(const char* mangled);

// Work that a GPU has done. Times in nanoseconds.
struct Span {
  uint32_t device = 0, stream = 0;
  uint64_t begin = 0, end = 0;
  const char* category = "kernel";  // or "copy", "fill"
  std::string name;
  uint64_t bytes = 0;  // 0: a kernel
  bool of_graph = false;
};

struct TraceLimits {
  uint64_t max_bytes = 12 << 20;  // the file's size
  uint64_t origin = 0;            // time 0 of the file; work that began earlier is left out
};

// Thread-safe.
class TraceFile {
 public:
  // Creates the file at `path`. is_open() says whether that has succeeded.
  TraceFile(const std::string& path, const TraceLimits& limits);
  // Closes the file, which ends with the counts of what it lacks.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  bool is_open() const { return file_ != nullptr; }
  void Add(const Span& span);
  // Counts records that were lost before they arrived here.
  void AddLost(uint64_t records);
  // What was added so far is in the file, whatever happens to the process.
  void Flush();

 private:
  void Write(const std::string& line);

  const TraceLimits limits_;
  std::FILE* const file_;
  std::mutex mutex_;
  std::set<std::pair<uint32_t, uint32_t>> named_;  // device and stream
  uint64_t bytes_ = 0, spans_ = 0, left_out_ = 0, lost_ = 0;
};

}  // namespace millrace::gpu_trace

#endif  // MILLRACE_BENCH_GPU_TRACE_TRACE_FILE_H_
