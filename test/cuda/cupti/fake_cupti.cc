// A CUPTI without GPUs, for bench/gpu_trace: a library of the functions that it calls. A test, here
// a Python program, adds records, which are returned in buffers as CUPTI does: on a flush, or when
// a buffer is full.
#include <cupti.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

struct Cupti {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> enabled;
  std::vector<std::vector<uint8_t>> records;  // not returned yet
  size_t dropped = 0;
  std::deque<std::string> names;  // as long as the process exists, as CUPTI's
  int default_flushes = 0;
  CUptiResult result = CUPTI_SUCCESS;  // of cuptiActivityEnable
} cupti;

size_t SizeOf(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    default:
      return 16;  // a kind that was not asked for
  }
}

template <typename Record>
void Add(const Record& record) {
  std::lock_guard lock(cupti.mutex);
  if (!cupti.enabled.contains(record.kind)) return;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&record);
  cupti.records.emplace_back(bytes, bytes + sizeof(Record));
}

// Fields that were not set hold this, so that a read of a wrong place shows.
template <typename Record>
Record Poisoned(CUpti_ActivityKind kind, uint32_t stream, uint64_t start, uint64_t end) {
  Record record;
  std::memset(static_cast<void*>(&record), 0xa5, sizeof(record));
  record.kind = kind;
  record.start = start;
  record.end = end;
  record.deviceId = 0;
  record.streamId = stream;
  record.graphNodeId = 0;
  return record;
}

// Returns all records in buffers of the client.
void Return() {
  std::unique_lock lock(cupti.mutex);
  std::vector<std::vector<uint8_t>> records;
  records.swap(cupti.records);
  lock.unlock();
  for (size_t next = 0; next < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0, used = 0;
    cupti.request(&buffer, &size, &most);
    if (!buffer) return;
    while (next < records.size() && used + records[next].size() <= size) {
      std::memcpy(buffer + used, records[next].data(), records[next].size());
      used += records[next++].size();
    }
    cupti.complete(nullptr, 0, buffer, size, used);
  }
}

}  // namespace

extern "C" {

// ---- CUPTI ----

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = 1000000000;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  cupti.request = request, cupti.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!cupti.complete) return CUPTI_ERROR_INVALID_OPERATION;
  cupti.enabled.insert(kind);
  return cupti.result;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  Return();
  std::lock_guard lock(cupti.mutex);
  cupti.default_flushes += flag == 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* const next = *record ? reinterpret_cast<uint8_t*>(*record) + SizeOf(**record) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = cupti.dropped;
  cupti.dropped = 0;
  return CUPTI_SUCCESS;
}

// ---- Called by the test ----

// Times in nanoseconds since the time that cuptiGetTimestamp gives.
void AddKernel(uint32_t stream, uint64_t begin, uint64_t end, const char* name, uint64_t node) {
  auto record = Poisoned<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, stream,
                                                 1000000000 + begin, 1000000000 + end);
  {
    std::lock_guard lock(cupti.mutex);
    record.name = cupti.names.emplace_back(name).c_str();
  }
  record.graphNodeId = node;
  Add(record);
}
void AddUnfinishedKernel(uint32_t stream) {
  auto record =
      Poisoned<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, stream, 0, 0);
  record.name = "unfinished";
  Add(record);
}
void AddCopy(uint32_t stream, uint64_t begin, uint64_t end, int kind, uint64_t bytes, int host) {
  auto record = Poisoned<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, stream,
                                                1000000000 + begin, 1000000000 + end);
  record.copyKind = static_cast<uint8_t>(kind);
  record.srcKind = static_cast<uint8_t>(host);
  record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = bytes;
  Add(record);
}
void AddPeerCopy(uint32_t stream, uint64_t begin, uint64_t end, uint64_t bytes) {
  auto record = Poisoned<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, stream,
                                                    1000000000 + begin, 1000000000 + end);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.bytes = bytes;
  Add(record);
}
void AddFill(uint32_t stream, uint64_t begin, uint64_t end, uint64_t bytes) {
  auto record = Poisoned<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, stream,
                                                1000000000 + begin, 1000000000 + end);
  record.bytes = bytes;
  Add(record);
}
void Drop(size_t records) { cupti.dropped += records; }
void FailToEnable() { cupti.result = CUPTI_ERROR_NOT_INITIALIZED; }
int DefaultFlushes() {
  std::lock_guard lock(cupti.mutex);
  return cupti.default_flushes;
}

}  // extern "C"
