#include "train/session/session_solvers.h"

#include <omp.h>

#include <chrono>
#include <thread>

namespace millrace::inline train {

void SessionSolver::Restore(const ResumePoint& point) {
  const SynchronousStep* const step = strategy->synchronous();
  solver->Restore(point, step != nullptr ? step->history() : index);
}

SessionSolvers::SessionSolvers(const std::vector<Device*>& gpus, int on_host)
    : all_(gpus.size() + on_host), gpus_(static_cast<int>(gpus.size())) {
  for (int i = 0; i < count(); ++i) {
    all_[i].index = i;
    all_[i].device = i < gpus_ ? gpus[i] : &HostDevice();
  }
  for (int i = 1; i < count(); ++i) {
    threads_.push_back(std::make_unique<Thread>(
        StrCat("solver-", i), [this, i] { Loop(&all_[i]); }, &of_threads_));
  }
}

SessionSolvers::~SessionSolvers() {
  {
    std::lock_guard lock(mutex_);
    work_ = nullptr;
    ++begins_;
  }
  begun_.notify_all();
  for (auto& thread : threads_) thread->Join();
}

void SessionSolvers::ForEach(const Work& work) {
  ErrorSink errors;
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    errors_ = &errors;
    computing_ = count() - 1;
    ++begins_;
  }
  begun_.notify_all();
  Do(work, &first(), &errors);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return computing_ == 0; });
  errors.RethrowIfFailed();
}

void SessionSolvers::Loop(SessionSolver* own) {
  omp_set_num_threads(1);
  for (uint64_t done = 0;; ++done) {
    const Work* work = nullptr;
    ErrorSink* errors = nullptr;
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return begins_ > done; });
      work = work_;
      errors = errors_;
    }
    if (work == nullptr) break;
    Do(*work, own, errors);
    std::lock_guard lock(mutex_);
    if (--computing_ == 0) ended_.notify_one();
  }
  own->solver.reset();
  own->strategy.reset();
}

void SessionSolvers::Do(const Work& work, SessionSolver* own, ErrorSink* errors) {
  try {
    work(own);
  } catch (...) {
    errors->Report(std::current_exception());
    if (own->strategy && own->strategy->synchronous() != nullptr) {
      own->strategy->synchronous()->Fail(std::current_exception());
    }
  }
}

SessionGpus::SessionGpus(RunSetup* setup)
    : setup_(*setup), linked_(setup->gpus() > 0 && setup->config.strategy->links_devices) {}

void SessionGpus::Link(Cluster* cluster) {
  if (!linked_ || links_) return;
  DeviceLinksConfig config;
  config.host = setup_.weights.get();
  for (const auto& replica : setup_.gpu_weights) config.devices.push_back(replica.get());
  config.cluster = cluster;
  config.clock = &setup_.clock;
  config.sink = &errors_;
  links_ = std::make_unique<DeviceLinks>(config);
  Await(&DeviceLinks::in_sync);
}

void SessionGpus::Unlink() {
  if (!links_) return;
  links_->Leave();
  Await(&DeviceLinks::left);
  links_->Stop();
  links_.reset();
}

void SessionGpus::Await(bool (DeviceLinks::*holds)() const) const {
  while (!(*links_.*holds)()) {
    errors_.RethrowIfFailed();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  errors_.RethrowIfFailed();
}

}  // namespace millrace::inline train
