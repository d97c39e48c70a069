// Processes that MPI connects. All calls of MPI but the first and the last are made under one lock,
// which no thread holds while it waits: MPI_THREAD_SERIALIZED is enough.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collective/processes.h"

namespace millrace::inline collective {
namespace {

// Largest count of one call.
constexpr size_t kLargest = size_t{1} << 30;

class MpiGroup : public Collective {
 public:
  // `mutex`: of all calls of MPI; outlives this object.
  explicit MpiGroup(std::mutex* mutex) : mutex_(*mutex) {
    const std::lock_guard lock(mutex_);
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
  }
  ~MpiGroup() override {
    const std::lock_guard lock(mutex_);
    MPI_Comm_free(&communicator_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Broadcast(std::span<std::byte> bytes, const std::function<void()>& check) override {
    ForParts(bytes, [&](std::byte* part, int count) {
      MPI_Ibcast(part, count, MPI_BYTE, 0, communicator_, NewRequest());
    });
    Wait(check);
  }
  void StartSum(std::span<float> values, bool) override {
    ForParts(values, [&](float* part, int count) {
      MPI_Iallreduce(MPI_IN_PLACE, part, count, MPI_FLOAT, MPI_SUM, communicator_, NewRequest());
    });
  }
  void Poll() override { Test(); }
  void Wait(const std::function<void()>& check) override {
    while (!Test()) {
      if (check) check();
      std::this_thread::yield();
    }
  }

 private:
  template <typename Value, typename Use>
  void ForParts(std::span<Value> values, Use use) {
    const std::lock_guard lock(mutex_);
    for (size_t begin = 0; begin < values.size(); begin += kLargest) {
      use(values.data() + begin, static_cast<int>(std::min(kLargest, values.size() - begin)));
    }
  }
  // Requests are handles, which may move.
  MPI_Request* NewRequest() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  // Makes progress. Returns whether everything that was started is complete.
  bool Test() {
    const std::lock_guard lock(mutex_);
    int complete = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete,
                MPI_STATUSES_IGNORE);
    if (complete) requests_.clear();
    return complete;
  }

  std::mutex& mutex_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;  // those that Wait has not seen complete
};

class MpiProcesses : public Processes {
 public:
  MpiProcesses() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_SERIALIZED) {
      throw Error("this MPI library does not support threads, expected MPI_THREAD_SERIALIZED");
    }
  }
  ~MpiProcesses() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Collective> NewGroup() override { return std::make_unique<MpiGroup>(&mutex_); }
  void Abort() override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();  // MPI_Abort does not return
  }

 private:
  std::mutex mutex_;
  int rank_ = 0, size_ = 1;
};

std::unique_ptr<Processes> ConnectByMpi() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) {
    throw Error("MPI is or was in use in this process, which can connect to others only once");
  }
  return std::make_unique<MpiProcesses>();
}

const RegisterConnect registered(ConnectByMpi);

}  // namespace
}  // namespace millrace::inline collective
