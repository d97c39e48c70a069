#include "test/cuda/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

namespace millrace::test {
namespace {

thread_local int current = 0;

struct FakeWork {
  std::string name;
  std::function<void()> run;
};
struct FakeGraph {
  std::vector<FakeWork> work;
};
struct FakeStream {
  int device;
  FakeGraph* recorded = nullptr;  // while the stream records
};
struct FakeEvent {
  unsigned flags;
};

constexpr size_t kMaxScribbled = size_t{1} << 20;  // of new memory

cudaError_t Allocate(void** pointer, size_t bytes, cudaMemoryType type) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  if (bytes > FakeCuda::Get().largest_block) return cudaErrorMemoryAllocation;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xff, std::min(bytes, kMaxScribbled));
  ++FakeCuda::Get().allocations;
  FakeCuda::Get().Add(*pointer, {bytes, type, current, true});
  return cudaSuccess;
}

cudaError_t Release(void* pointer, cudaMemoryType type) {
  if (const cudaError_t status = FakeCuda::Get().Call()) return status;
  if (!FakeCuda::Get().Remove(pointer, type)) return cudaErrorInvalidValue;
  std::free(pointer);
  return cudaSuccess;
}

// Work on a stream: it belongs to the device that is selected. It runs at once, unless the stream
// records it.
cudaError_t Enqueue(
    cudaStream_t stream, const char* name, std::function<void()> run = [] {}) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  auto* const to = reinterpret_cast<FakeStream*>(stream);
  if (to->device != current) return cudaErrorInvalidResourceHandle;
  if (to->recorded != nullptr) {
    to->recorded->work.push_back({name, std::move(run)});
    return cudaSuccess;
  }
  FakeCuda::Get().Enqueue(stream, name);
  run();
  return cudaSuccess;
}

}  // namespace

int CurrentFakeGpu() { return current; }

FakeCuda& FakeCuda::Get() {
  static FakeCuda cuda;
  return cuda;
}

void FakeCuda::Reset() {
  std::lock_guard lock(mutex_);
  devices = 2, capability = 90, driver = runtime = 13000;
  count_status = cudaSuccess;
  largest_block = size_t{1} << 40;
  fails_at = UINT64_MAX, failure = cudaErrorIllegalAddress, sticky = false;
  late_queries = queries = 0;
  calls_ = 0;
  for (const auto& [pointer, block] : blocks_) {
    if (block.owned) std::free(const_cast<std::byte*>(pointer));
  }
  contexts_.clear(), blocks_.clear(), work_.clear();
  waits_that_spin_ = waits_that_sleep_ = waits_for_all_work = 0;
  last_error = cudaSuccess;
  allocations = 0;
}

bool FakeCuda::IsRecording(cudaStream_t stream) const {
  return reinterpret_cast<const FakeStream*>(stream)->recorded != nullptr;
}

cudaError_t FakeCuda::Call() {
  std::lock_guard lock(mutex_);
  const uint64_t number = calls_++;
  return number == fails_at || (sticky && number > fails_at) ? failure : cudaSuccess;
}

cudaError_t FakeCuda::CallInContext() {
  {
    std::lock_guard lock(mutex_);
    contexts_.insert(current);
  }
  return Call();
}

std::set<int> FakeCuda::contexts() const {
  std::lock_guard lock(mutex_);
  return contexts_;
}

void FakeCuda::Add(void* pointer, const Block& block) {
  std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(pointer)] = block;
}

bool FakeCuda::Remove(void* pointer, cudaMemoryType type) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::byte*>(pointer));
  if (found == blocks_.end() || found->second.type != type) return false;
  blocks_.erase(found);
  return true;
}

const FakeCuda::Block* FakeCuda::Find(const void* pointer, size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto* const begin = static_cast<const std::byte*>(pointer);
  auto block = blocks_.upper_bound(begin);
  if (block == blocks_.begin()) return nullptr;
  --block;
  return begin + bytes <= block->first + block->second.bytes ? &block->second : nullptr;
}

size_t FakeCuda::blocks() const {
  std::lock_guard lock(mutex_);
  return blocks_.size();
}

void FakeCuda::Enqueue(cudaStream_t stream, const std::string& name) {
  std::lock_guard lock(mutex_);
  work_.push_back({stream, name});
}

std::vector<FakeCuda::Work> FakeCuda::work() const {
  std::lock_guard lock(mutex_);
  return work_;
}

}  // namespace millrace::test

// ---- The functions of the runtime ----

using millrace::test::current;
using millrace::test::FakeCuda;
using millrace::test::FakeEvent;
using millrace::test::FakeGraph;
using millrace::test::FakeStream;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(FakeCuda::Get().last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "the driver's version is insufficient";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorDevicesUnavailable:
      return "the device is busy or unavailable";
    default:
      return "an illegal address was met";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  const FakeCuda& cuda = FakeCuda::Get();
  *count = cuda.count_status == cudaSuccess ? cuda.devices : 0;
  return cuda.count_status;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = FakeCuda::Get().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = FakeCuda::Get().runtime;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake");
  properties->major = FakeCuda::Get().capability / 10;
  properties->minor = FakeCuda::Get().capability % 10;
  properties->totalGlobalMem = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= FakeCuda::Get().devices) return cudaErrorInvalidDevice;
  current = device;
  return FakeCuda::Get().CallInContext();
}

cudaError_t cudaDeviceSynchronize() {
  ++FakeCuda::Get().waits_for_all_work;
  return FakeCuda::Get().CallInContext();
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return millrace::test::Allocate(pointer, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaFree(void* pointer) {
  return millrace::test::Release(pointer, cudaMemoryTypeDevice);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return millrace::test::Allocate(pointer, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaFreeHost(void* pointer) {
  return millrace::test::Release(pointer, cudaMemoryTypeHost);
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  FakeCuda::Get().Add(pointer, {bytes, cudaMemoryTypeHost, current, false});
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  return FakeCuda::Get().Remove(pointer, cudaMemoryTypeHost) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  *attributes = {};
  const FakeCuda::Block* const block = FakeCuda::Get().Find(pointer, 1);
  attributes->type = block ? block->type : cudaMemoryTypeUnregistered;
  attributes->device = block ? block->device : cudaInvalidDeviceId;
  attributes->devicePointer = block ? const_cast<void*>(pointer) : nullptr;
  attributes->hostPointer = attributes->devicePointer;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  std::memcpy(destination, source, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* pointer, int byte, size_t bytes) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  std::memset(pointer, byte, bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return FakeCuda::Get().CallInContext();
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream{current});
  ++FakeCuda::Get().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<FakeStream*>(stream);
  --FakeCuda::Get().streams;
  return FakeCuda::Get().Call();
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  FakeCuda::Get().CountWait(true);
  return FakeCuda::Get().CallInContext();
}
// A stream that records accepts events of its own recording, or external ones.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned flags) {
  const bool records = reinterpret_cast<FakeStream*>(stream)->recorded != nullptr;
  if (records != (flags == cudaEventWaitExternal)) return cudaErrorStreamCaptureIsolation;
  return millrace::test::Enqueue(stream, "wait");
}
cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return millrace::test::Enqueue(stream, "copy", [=] { std::memcpy(destination, source, bytes); });
}
cudaError_t cudaMemsetAsync(void* pointer, int byte, size_t bytes, cudaStream_t stream) {
  return millrace::test::Enqueue(stream, "fill", [=] { std::memset(pointer, byte, bytes); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  auto* const to = reinterpret_cast<FakeStream*>(stream);
  if (to->recorded != nullptr || mode != cudaStreamCaptureModeThreadLocal) {
    return cudaErrorIllegalState;
  }
  to->recorded = new FakeGraph;
  ++FakeCuda::Get().recordings, ++FakeCuda::Get().graphs;
  return cudaSuccess;
}
// Ends the recording also if it fails.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto* const to = reinterpret_cast<FakeStream*>(stream);
  if (to->recorded == nullptr) return cudaErrorIllegalState;
  FakeGraph* const recorded = std::exchange(to->recorded, nullptr);
  --FakeCuda::Get().recordings;
  *graph = nullptr;
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) {
    delete recorded;
    --FakeCuda::Get().graphs;
    return status;
  }
  *graph = reinterpret_cast<cudaGraph_t>(recorded);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = FakeCuda::Get().IsRecording(stream) ? cudaStreamCaptureStatusActive
                                                : cudaStreamCaptureStatusNone;
  return FakeCuda::Get().Call();
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  *made = reinterpret_cast<cudaGraphExec_t>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
  ++FakeCuda::Get().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return millrace::test::Enqueue(stream, "graph", [graph] {
    for (const auto& work : reinterpret_cast<FakeGraph*>(graph)->work) work.run();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  --FakeCuda::Get().graphs;
  return FakeCuda::Get().Call();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(graph));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t status = FakeCuda::Get().CallInContext()) return status;
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent{flags});
  ++FakeCuda::Get().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidValue;
  delete reinterpret_cast<FakeEvent*>(event);
  --FakeCuda::Get().events;
  return FakeCuda::Get().Call();
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) {
  return millrace::test::Enqueue(stream, "event");
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const bool records = reinterpret_cast<FakeStream*>(stream)->recorded != nullptr;
  if (flags != cudaEventRecordExternal || !records) return cudaErrorInvalidValue;
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  FakeCuda& cuda = FakeCuda::Get();
  ++cuda.queries;
  if (const cudaError_t status = cuda.Call()) return status;
  if (cuda.late_queries == 0) return cudaSuccess;
  --cuda.late_queries;
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const unsigned flags = reinterpret_cast<FakeEvent*>(event)->flags;
  FakeCuda::Get().CountWait((flags & cudaEventBlockingSync) == 0);
  FakeCuda::Get().late_queries = 0;
  return FakeCuda::Get().Call();
}

}  // extern "C"
