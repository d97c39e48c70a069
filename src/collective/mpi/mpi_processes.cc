// Processes that MPI connects. All calls of MPI but the first and the last are made under one lock,
// which no thread holds while it waits: MPI_THREAD_SERIALIZED is enough. No call but those
// of the constructor and MPI_Finalize waits for another process.
#include <glog/logging.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collective/mpi/mpi_call.h"
#include "collective/mpi/mpi_heartbeats.h"
#include "collective/processes.h"

namespace millrace::inline collective {
namespace {

// Largest count of one call.
constexpr size_t kLargest = size_t{1} << 30;

// State of a process's use of MPI that all its groups share.
struct MpiState {
  explicit MpiState(double peer_timeout) : heartbeats(&mutex, peer_timeout) {}

  std::mutex mutex;  // of all calls of MPI
  MpiHeartbeats heartbeats;
  std::atomic<bool> failed{false};
};

// Waits until complete() or throws Error: of complete(), of `check`, or since a process is lost.
template <typename Complete>
void WaitUntil(const MpiState& state, Complete complete, const std::function<void()>& check) {
  while (!complete()) {
    if (check) check();
    state.heartbeats.ThrowIfLost();
    std::this_thread::yield();
  }
}

class MpiGroup : public Collective {
 public:
  // `state` outlives this object. Waits for all processes.
  explicit MpiGroup(MpiState* state) : state_(*state) {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(state_.mutex);
      CheckMpi(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), "MPI_Comm_idup");
    }
    requests_.push_back(request);
    Wait({});
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
  }
  ~MpiGroup() override {
    // A process that has failed leaves its requests as they are: to end them, it would have to wait
    // for the others.
    if (state_.failed || !requests_.empty()) return;
    const std::lock_guard lock(state_.mutex);
    MPI_Comm_free(&communicator_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Broadcast(std::span<std::byte> bytes, const std::function<void()>& check) override {
    ForParts(bytes, [&](std::byte* part, int count) {
      CheckMpi(MPI_Ibcast(part, count, MPI_BYTE, 0, communicator_, NewRequest()), "MPI_Ibcast");
    });
    Wait(check);
  }
  void StartSum(std::span<float> values, bool) override {
    ForParts(values, [&](float* part, int count) {
      CheckMpi(MPI_Iallreduce(MPI_IN_PLACE, part, count, MPI_FLOAT, MPI_SUM, communicator_,
                              NewRequest()),
               "MPI_Iallreduce");
    });
  }
  void Poll() override {
    Test();
    state_.heartbeats.ThrowIfLost();
  }
  void Wait(const std::function<void()>& check) override {
    WaitUntil(
        state_, [this] { return Test(); }, check);
  }

 private:
  template <typename Value, typename Use>
  void ForParts(std::span<Value> values, Use use) {
    const std::lock_guard lock(state_.mutex);
    for (size_t begin = 0; begin < values.size(); begin += kLargest) {
      use(values.data() + begin, static_cast<int>(std::min(kLargest, values.size() - begin)));
    }
  }
  // Requests are handles, which may move.
  MPI_Request* NewRequest() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  // Makes progress. Returns whether everything that was started is complete.
  bool Test() {
    const std::lock_guard lock(state_.mutex);
    int complete = 0;
    CheckMpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete,
                         MPI_STATUSES_IGNORE),
             "MPI_Testall");
    if (complete) requests_.clear();
    return complete;
  }

  MpiState& state_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;  // those that Wait has not seen complete
};

class MpiProcesses : public Processes {
 public:
  explicit MpiProcesses(double peer_timeout) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    // Errors are for the caller; the default is to end the process.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_SERIALIZED) {
      throw Error("this MPI library does not support threads, expected MPI_THREAD_SERIALIZED");
    }
    state_ = std::make_unique<MpiState>(peer_timeout);
  }
  // A process that has failed does not end its use of MPI: that would wait for the others, and
  // mpirun ends them when a process exits like this.
  ~MpiProcesses() override {
    try {
      Finish();
    } catch (const std::exception& error) {
      LOG(ERROR) << error.what();
    }
    if (!state_->failed) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Collective> NewGroup() override {
    return std::make_unique<MpiGroup>(state_.get());
  }

  void Finish() override {
    if (state_->failed || std::exchange(finished_, true)) return;
    try {
      AwaitAll();
    } catch (const std::exception& error) {
      Fail(error.what());
      throw;
    }
    state_->heartbeats.Stop();
  }

  void Fail(const std::string& reason) override {
    if (!state_->failed.exchange(true)) state_->heartbeats.Fail(reason);
  }

  void Abort() override {
    std::fflush(nullptr);
    // MPI_Abort asks mpirun, which a process that is cut off does not reach.
    std::thread([] {
      std::this_thread::sleep_for(kAbort);
      std::_Exit(1);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();  // MPI_Abort does not return
  }

 private:
  static constexpr std::chrono::seconds kAbort{10};

  void AwaitAll() {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(state_->mutex);
      CheckMpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
    }
    const auto test = [&] {
      const std::lock_guard lock(state_->mutex);
      int complete = 0;
      CheckMpi(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
      return complete != 0;
    };
    WaitUntil(*state_, test, {});
  }

  std::unique_ptr<MpiState> state_;
  bool finished_ = false;
  int rank_ = 0, size_ = 1;
};

std::unique_ptr<Processes> ConnectByMpi(double peer_timeout) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) {
    throw Error("MPI is or was in use in this process, which can connect to others only once");
  }
  return std::make_unique<MpiProcesses>(peer_timeout);
}

const RegisterConnect mpi_processes(ConnectByMpi);

}  // namespace
}  // namespace millrace::inline collective
