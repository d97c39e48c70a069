// A group of processes of one machine, each of which is a member, in shared memory: no launcher and
// no library connects them, only a name that all of them know.
#ifndef MILLRACE_COLLECTIVE_SHARED_MEMORY_GROUP_H_
#define MILLRACE_COLLECTIVE_SHARED_MEMORY_GROUP_H_

#include <functional>
#include <memory>
#include <string>

#include "collective/collective.h"

namespace millrace::inline collective {

struct SharedMemoryGroupOptions {
  std::string name;        // of 1 to 64 letters and digits; no other group of the user has it
  int rank = 0, size = 1;  // at most 64 members
  size_t floats = 0;    // of all sums between two calls of Wait at most; the same for all members
  double seconds = 60;  // longest wait for the other members to join
};

// Joins the group and returns when all members have done so. Calls `check` now and then meanwhile;
// what it throws ends the wait. Throws Error if a member does not come, has other options, or has
// the same rank. Waits of the member throw Error that names another member that has ended. The
// memory is gone when the last member has ended, even if all of them are killed after they joined.
// That of members who were killed earlier is removed by the next group on the machine.
std::unique_ptr<Collective> JoinSharedMemoryGroup(const SharedMemoryGroupOptions& options,
                                                  const std::function<void()>& check = {});

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_SHARED_MEMORY_GROUP_H_
