// Orders the work of several queues of a device that changes one array.
//
// A solver's update and an exchange's kernel each read a weight, compute, and write it back. If two
// of them ran at the same time on one weight, the later write would undo the other's addition.
// Each therefore begins after the change that was enqueued before it, on whatever queue, has
// completed. The device waits for that, not the host.
//
// Work that only reads holds no change up. The exchange reads what it says that it has: the changes
// that were enqueued before. A solver's passes need no order.
#ifndef MILLRACE_DEVICE_WRITE_ORDER_H_
#define MILLRACE_DEVICE_WRITE_ORDER_H_

#include <mutex>

#include "millrace/queue.h"

namespace millrace::inline device {

// Thread-safe. Outlives no queue's device.
class WriteOrder {
 public:
  // Calls enqueue(), which enqueues on `queue` work that changes the array. That work begins after
  // the work of all earlier calls has completed. Throws Error as `queue` does.
  template <typename Enqueue>
  void Write(Queue& queue, Enqueue enqueue) {
    WriteAfter(queue, [&](const Event& last) {
      queue.Wait(last);
      enqueue();
    });
  }
  // As Write, for work of which only a part changes the array: enqueue(last) makes that part wait
  // for `last`.
  template <typename Enqueue>
  void WriteAfter(Queue& queue, Enqueue enqueue) {
    std::lock_guard lock(mutex_);
    enqueue(writer_ == &queue ? Event() : last_);
    last_ = queue.Record();
    writer_ = &queue;
  }

  // As Write, for work that only reads the array: it sees the changes by all earlier calls of
  // Write, and may see parts of later ones, which do not wait for it.
  template <typename Enqueue>
  void Read(Queue& queue, Enqueue enqueue) {
    {
      std::lock_guard lock(mutex_);
      if (writer_ != &queue) queue.Wait(last_);
    }
    enqueue();
  }

  // Whether another queue has changed the array since the last change by `queue`.
  bool IsChangedByOthers(const Queue& queue) const {
    std::lock_guard lock(mutex_);
    return writer_ != nullptr && writer_ != &queue;
  }

 private:
  mutable std::mutex mutex_;
  Event last_;                     // the end of the last change; reached before the first
  const Queue* writer_ = nullptr;  // of the last change; only compared
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_WRITE_ORDER_H_
