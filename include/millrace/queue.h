// A queue of work on a device: copies, fills and kernels, which run in the order in which they were
// enqueued.
#ifndef MILLRACE_QUEUE_H_
#define MILLRACE_QUEUE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <typeindex>
#include <utility>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

class Device;

// A device has failed: work on it, or a call of it. The message begins with the device's name.
class MILLRACE_API DeviceError : public Error {
 public:
  using Error::Error;
};

// Work of queues with normal priority runs first: solvers use kNormal, exchanges kLow.
enum class QueuePriority { kNormal, kLow };

// A point in the work of a queue. It is reached when all work enqueued before it has completed.
// Copies denote the same point. May outlive its queue. Thread-safe, except for assignment.
class MILLRACE_API Event {
 public:
  // A backend's part.
  class State {
   public:
    virtual ~State() = default;
    virtual bool Done() = 0;
    virtual void Synchronize() = 0;
  };

  // A point that has been reached.
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Whether the point has been reached. Throws Error if the device has failed.
  bool Done() const { return !state_ || state_->Done(); }
  // Waits until the point is reached. Throws Error if the device has failed.
  void Synchronize() const {
    if (state_) state_->Synchronize();
  }
  // For backends. Null: reached.
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// Memory that work uses must stay valid, and other code must not change it, until that work has
// completed. Only one thread at a time may use a queue.
//
// Work completes asynchronously. The host's queue completes each call before it returns, at the
// cost of the work alone. If the device fails, Record, Synchronize and the queue's events throw
// DeviceError with one line, and so does every later call. The results of work that had not
// completed are then undefined, and the device no longer accesses its memory.
class MILLRACE_API Queue {
 public:
  explicit Queue(Device& device) : device_(device) {}
  // Waits until the device no longer accesses the memory of enqueued work.
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device& device() const { return device_; }

  // Copies within the memory of the device; the blocks do not overlap.
  virtual void Copy(void* destination, const void* source, size_t bytes) = 0;
  // `host`: staging memory of the device. With other host memory the call may wait for the copy.
  virtual void CopyToDevice(void* destination, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* source, size_t bytes) = 0;
  virtual void Fill(void* destination, int byte, size_t bytes) = 0;

  // Marks the current end of the work. Allocates nothing once a queue's most events have existed at
  // the same time.
  virtual Event Record() = 0;
  // Work enqueued later begins after `event` has been reached, which may be of another queue. Waits
  // on the calling thread if it is of a device of another type.
  virtual void Wait(const Event& event) = 0;
  // Waits until all work has completed.
  virtual void Synchronize() = 0;

  // An object that is used with this queue only: the handle of a library. make() makes it at the
  // first call for T. It ends after the queue's work.
  template <typename T, typename Make>
  T& Attached(Make make) {
    std::shared_ptr<void>& object = attached_[typeid(T)];
    if (!object) object = std::shared_ptr<T>(make());
    return *static_cast<T*>(object.get());
  }

 protected:
  // Ends the attached objects. A backend's destructor calls it between the end of the work and that
  // of what the objects use.
  void EndAttached() { attached_.clear(); }

 private:
  Device& device_;
  std::map<std::type_index, std::shared_ptr<void>> attached_;
};

}  // namespace millrace

#endif  // MILLRACE_QUEUE_H_
