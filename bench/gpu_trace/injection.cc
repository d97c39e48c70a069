// Library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH): it writes the times of
// kernels, copies and fills of each stream to the file named by MILLRACE_TRACE ("%p" stands for the
// process id), by CUPTI's activity records. It is no part of the program that it measures.
//
//   MILLRACE_TRACE        the file
//   MILLRACE_TRACE_MIB    its largest size, 12 if not given
//   MILLRACE_TRACE_AFTER  seconds after the start of CUDA from which on work is recorded, 0
//   MILLRACE_CUPTI        CUPTI's file, if the dynamic linker does not find libcupti.so
#include <cupti.h>
#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/gpu_trace/trace_file.h"

namespace millrace::gpu_trace {
namespace {

// CUPTI returns a buffer early only if all work in it has ended, which on a busy GPU is when the
// buffer is full. Small buffers, about 1,000 records, keep what a killed process loses short.
constexpr size_t kBufferBytes = 256 << 10;
constexpr std::chrono::milliseconds kFlushPeriod{200};

void Say(const std::string& line) { std::fprintf(stderr, "millrace_trace: %s\n", line.c_str()); }

// The functions of CUPTI that are used. The library is not linked, so that its file may lie
// anywhere.
struct Cupti {
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_num_dropped = nullptr;

  // Where the library may be: where the dynamic linker looks, in the toolkit, in Python's packages.
  static std::vector<std::string> Files() {
    if (const char* const given = std::getenv("MILLRACE_CUPTI")) return {given};
    const char* const home = std::getenv("CUDA_HOME");
    const char* const path = std::getenv("PATH");
    const std::string root = home ? home : "/usr/local/cuda";
    std::vector<std::string> files = {"libcupti.so.13", "libcupti.so",
                                      root + "/extras/CUPTI/lib64/libcupti.so",
                                      root + "/lib64/libcupti.so"};
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      glob_t found{};
      const std::string pattern =
          folder + "/../lib/python3*/*-packages/nvidia/*/lib/libcupti.so.1*";
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
      }
      globfree(&found);
    }
    return files;
  }

  // Returns false after a line on stderr.
  bool Load() {
    void* library = nullptr;
    std::string why;
    for (const std::string& file : Files()) {
      library = dlopen(file.c_str(), RTLD_NOW);
      if (library) break;
      if (why.empty()) why = dlerror();
    }
    if (!library) {
      Say(why + ": expected CUPTI's file in MILLRACE_CUPTI");
      return false;
    }
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(dlsym(library, name));
      if (!*function) Say(std::string("CUPTI has no function ") + name);
      return *function != nullptr;
    };
    return find("cuptiGetTimestamp", &get_timestamp) &&
           find("cuptiActivityRegisterCallbacks", &register_callbacks) &&
           find("cuptiActivityEnable", &enable) && find("cuptiActivityFlushAll", &flush_all) &&
           find("cuptiActivityGetNextRecord", &get_next_record) &&
           find("cuptiActivityGetNumDroppedRecords", &get_num_dropped);
  }
};

const char* CopyName(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy within device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy to another device";
    default:
      return "copy";
  }
}

// Times and stream of a record, which all kinds call by the same names.
template <typename Record>
Span SpanOf(const Record& record, const char* category, std::string name) {
  return {.device = record.deviceId,
          .stream = record.streamId,
          .begin = record.start,
          .end = record.end,
          .category = category,
          .name = std::move(name),
          .of_graph = record.graphNodeId != 0};
}

class Tracer {
 public:
  static Tracer*& Get() {
    static Tracer* tracer = nullptr;
    return tracer;
  }

  // Returns false after a line on stderr.
  bool Start(const std::string& path) {
    if (!cupti_.Load()) return false;
    const char* const mib = std::getenv("MILLRACE_TRACE_MIB");
    const char* const after = std::getenv("MILLRACE_TRACE_AFTER");
    TraceLimits limits;
    if (mib) limits.max_bytes = static_cast<uint64_t>(std::atof(mib) * (1 << 20));
    if (!Succeeds(cupti_.get_timestamp(&limits.origin), "cuptiGetTimestamp")) return false;
    if (after) limits.origin += static_cast<uint64_t>(std::atof(after) * 1e9);
    file_ = std::make_unique<TraceFile>(path, limits);
    if (!file_->is_open()) {
      Say("cannot create " + path);
      return false;
    }
    const auto request = [](uint8_t** buffer, size_t* size, size_t* records) {
      *buffer = static_cast<uint8_t*>(std::aligned_alloc(16, kBufferBytes));
      *size = *buffer ? kBufferBytes : 0;
      *records = 0;  // as many as there is room for
    };
    const auto complete = [](CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
      Get()->Take(buffer, valid);
      std::free(buffer);
    };
    if (!Succeeds(cupti_.register_callbacks(request, complete), "cuptiActivityRegisterCallbacks")) {
      return false;
    }
    for (const CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
      if (!Succeeds(cupti_.enable(kind), "cuptiActivityEnable")) return false;
    }
    flusher_ = std::thread([this] { FlushPeriodically(); });
    return true;
  }

  // Writes what CUPTI still has, and closes the file.
  void End() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    flusher_.join();
    cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::lock_guard lock(taking_);
    file_.reset();
  }

 private:
  static bool Succeeds(CUptiResult result, const char* call) {
    if (result == CUPTI_SUCCESS) return true;
    Say(std::string(call) + " fails with code " + std::to_string(result));
    return false;
  }

  // Takes the records of a buffer. CUPTI calls it on threads of its own.
  void Take(uint8_t* buffer, size_t valid) {
    std::lock_guard lock(taking_);
    if (!file_) return;
    CUpti_Activity* record = nullptr;
    while (cupti_.get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) TakeRecord(*record);
    size_t lost = 0;
    if (cupti_.get_num_dropped(nullptr, 0, &lost) == CUPTI_SUCCESS) file_->AddLost(lost);
  }

  void TakeRecord(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
        return file_->Add(SpanOf(kernel, "kernel", NameOf(kernel.name)));
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        const bool pageable = copy.srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE ||
                              copy.dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
        const std::string name = CopyName(copy.copyKind);
        Span span = SpanOf(copy, "copy", pageable ? name + ", pageable" : name);
        span.bytes = copy.bytes;
        return file_->Add(span);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
        Span span = SpanOf(copy, "copy", CopyName(copy.copyKind));
        span.bytes = copy.bytes;
        return file_->Add(span);
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        Span span = SpanOf(fill, "fill", "fill");
        span.bytes = fill.bytes;
        return file_->Add(span);
      }
      default:
        return;
    }
  }

  const std::string& NameOf(const char* mangled) {
    std::string& name = names_[mangled ? mangled : "?"];
    if (name.empty()) name = ShortKernelName(mangled ? mangled : "?");
    return name;
  }

  void FlushPeriodically() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kFlushPeriod, [this] { return ended_; })) {
      lock.unlock();
      cupti_.flush_all(0);
      file_->Flush();
      lock.lock();
    }
  }

  Cupti cupti_;
  std::mutex taking_;  // held while records are taken
  std::unique_ptr<TraceFile> file_;
  std::unordered_map<std::string, std::string> names_;  // by what the compiler has made of them
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread flusher_;
};

std::string PathOf(std::string pattern) {
  const size_t at = pattern.find("%p");
  if (at != std::string::npos) pattern.replace(at, 2, std::to_string(getpid()));
  return pattern;
}

}  // namespace
}  // namespace millrace::gpu_trace

// Called by the CUDA driver when it has loaded this library. 1: success; otherwise the program goes
// on without a trace.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace millrace::gpu_trace;
  const char* const path = std::getenv("MILLRACE_TRACE");
  if (!path) {
    Say("MILLRACE_TRACE is not set: expected the file to write");
    return 0;
  }
  if (Tracer::Get()) return 1;
  // Lives until the process ends, since CUPTI may call back until then.
  Tracer::Get() = new Tracer;
  if (!Tracer::Get()->Start(PathOf(path))) return 0;
  std::atexit([] { Tracer::Get()->End(); });
  return 1;
}
