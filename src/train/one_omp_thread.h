// Limits OpenMP for the calls of a host program, which has a setting of its own.
#ifndef MILLRACE_TRAIN_ONE_OMP_THREAD_H_
#define MILLRACE_TRAIN_ONE_OMP_THREAD_H_

#include <omp.h>

namespace millrace::inline train {

// Makes OpenMP use one thread for this thread's computations; restores the number afterwards.
class OneOmpThread {
 public:
  OneOmpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOmpThread() { omp_set_num_threads(before_); }
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  const int before_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_ONE_OMP_THREAD_H_
