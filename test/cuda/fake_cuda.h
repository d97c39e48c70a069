// A CUDA runtime without GPUs. fake_cuda.cc defines the functions of the runtime that src/device
// calls; in this test program they take the place of the library's. Memory of a fake GPU is memory
// of the host, and work completes when it is enqueued.
#ifndef MILLRACE_TEST_CUDA_FAKE_CUDA_H_
#define MILLRACE_TEST_CUDA_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace millrace::test {

// The machine. Tests set the fields before they use it; the functions are thread-safe.
class FakeCuda {
 public:
  struct Block {
    size_t bytes;
    cudaMemoryType type;
    int device;
    bool owned;  // freed by Reset
  };
  // Work of a stream, by the function that enqueued it.
  struct Work {
    cudaStream_t stream;
    std::string name;
  };

  static FakeCuda& Get();
  // A machine with two GPUs. Frees what was allocated and not freed, because a call has failed.
  void Reset();

  int devices, capability, driver, runtime;  // versions as CUDA writes them
  cudaError_t count_status;                  // of cudaGetDeviceCount
  size_t largest_block;                      // bytes that can be allocated at once
  // The call with this number from 0 fails with `failure`; if `sticky`, so do all later ones.
  uint64_t fails_at;
  cudaError_t failure;
  bool sticky;
  // The next queries, this many, find their event not reached. A wait reaches all events.
  std::atomic<uint64_t> late_queries;

  // Counts a call. The result is what it returns.
  cudaError_t Call();
  // The same, for calls that begin a context on the thread's device.
  cudaError_t CallInContext();
  uint64_t calls() const { return calls_; }
  // GPUs on which a context has begun.
  std::set<int> contexts() const;

  void Add(void* pointer, const Block& block);
  bool Remove(void* pointer, cudaMemoryType type);
  // The block that contains all the bytes; null if there is none.
  const Block* Find(const void* pointer, size_t bytes) const;
  size_t blocks() const;

  void Enqueue(cudaStream_t stream, const std::string& name);
  std::vector<Work> work() const;
  int waits_that_spin() const { return waits_that_spin_; }
  int waits_that_sleep() const { return waits_that_sleep_; }
  void CountWait(bool spins) { spins ? ++waits_that_spin_ : ++waits_that_sleep_; }
  int streams = 0, events = 0;     // that exist
  int recordings = 0, graphs = 0;  // streams that record; graphs of either kind
  std::atomic<int> waits_for_all_work{0};
  std::atomic<uint64_t> queries = 0;     // of events, since Reset
  cudaError_t last_error = cudaSuccess;  // what cudaGetLastError returns next
  bool IsRecording(cudaStream_t stream) const;
  uint64_t allocations = 0;  // made so far, since Reset

 private:
  FakeCuda() { Reset(); }

  mutable std::mutex mutex_;
  uint64_t calls_ = 0;
  std::set<int> contexts_;
  std::map<const std::byte*, Block> blocks_;
  std::vector<Work> work_;
  std::atomic<int> waits_that_spin_{0}, waits_that_sleep_{0};
};

// The device that the calling thread has selected.
int CurrentFakeGpu();

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CUDA_FAKE_CUDA_H_
