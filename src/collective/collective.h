// Collective operations between the members of a group, which are solvers of one process or
// processes of a run: broadcasts and sums. Implementations: threads of one process
// (thread_group.h), and processes (mpi/).
#ifndef MILLRACE_COLLECTIVE_COLLECTIVE_H_
#define MILLRACE_COLLECTIVE_COLLECTIVE_H_

#include <cstddef>
#include <functional>
#include <span>

namespace millrace::inline collective {

// One member's view of its group. Every member calls the same operations, with the same sizes, in
// the same order. Not thread-safe: one thread of the member calls it at a time. Every function
// throws Error if the group has failed.
class Collective {
 public:
  virtual ~Collective() = default;

  // The number of this member, from 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether this is the first member in its process: of what the members of a process share, it
  // alone writes what all of them have computed.
  virtual bool leads_process() const { return true; }

  // Copies the bytes of rank 0 to all members. Returns when this member has them. `check` as for
  // Wait.
  virtual void Broadcast(std::span<std::byte> bytes, const std::function<void()>& check = {}) = 0;

  // Starts to replace `values`, in memory of the host, by their sums over all members. They belong
  // to the collective until Wait returns. The order of the additions depends on the numbers of
  // members and values only. A member with `wants_result` false finds anything in `values`
  // afterwards.
  virtual void StartSum(std::span<float> values, bool wants_result = true) = 0;
  // Lets sums that have been started make progress, and notices a failure of the group. Cheap; does
  // not wait.
  virtual void Poll() {}
  // Returns when all sums that this member has started are complete. Calls `check` now and then
  // meanwhile; what it throws ends the wait, and with it the use of this object.
  virtual void Wait(const std::function<void()>& check = {}) = 0;

  // StartSum and Wait.
  void Sum(std::span<float> values) {
    StartSum(values);
    Wait();
  }
};

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_COLLECTIVE_H_
