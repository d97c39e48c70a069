// Which threads the kernel lets run first.
#ifndef MILLRACE_BASE_PRIORITY_H_
#define MILLRACE_BASE_PRIORITY_H_

namespace millrace {

// Puts the calling thread ahead of the others of its process: its nice value becomes 10 less
// than it is, so that it runs soon after it wakes up, however busy the processors are. For
// threads that do little each time. Returns false, and changes nothing, without the
// permission (CAP_SYS_NICE, or a limit on nice values that allows it: RLIMIT_NICE).
bool RunBeforeOthers();

}  // namespace millrace

#endif  // MILLRACE_BASE_PRIORITY_H_
