// Scheduling priority of threads.
#ifndef MILLRACE_BASE_THREADS_PRIORITY_H_
#define MILLRACE_BASE_THREADS_PRIORITY_H_

namespace millrace::inline base {

// Lowers the nice value of the calling thread by 10, so that it runs soon after a wake-up even when
// the processors are busy. For threads that do little work per wake-up. Returns false and changes
// nothing without permission (CAP_SYS_NICE, or a sufficient RLIMIT_NICE).
bool RunBeforeOthers();

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_PRIORITY_H_
