// Bounded queue between threads. Waiting is a Boost.Thread interruption point, and Close() wakes
// all waiting threads, so that shutdown never hangs on a full or empty queue. Thread-safe.
#ifndef MILLRACE_BASE_THREADS_QUEUE_H_
#define MILLRACE_BASE_THREADS_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include <boost/thread/condition_variable.hpp>
#include <boost/thread/mutex.hpp>

namespace millrace::inline base {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Blocks while the queue is full. Returns false and drops `item` if the queue is closed.
  bool Push(T item) {
    boost::unique_lock<boost::mutex> lock(mutex_);
    while (items_.size() >= capacity_ && !closed_) has_room_.wait(lock);
    if (closed_) return false;
    items_.push_back(std::move(item));
    has_item_.notify_one();
    return true;
  }

  // Blocks while the queue is empty. Returns nullopt once the queue is closed and empty.
  std::optional<T> Pop() {
    boost::unique_lock<boost::mutex> lock(mutex_);
    while (items_.empty() && !closed_) has_item_.wait(lock);
    return TakeFront();
  }

  // As Pop, but returns nullopt at once if the queue is empty.
  std::optional<T> TryPop() {
    boost::unique_lock<boost::mutex> lock(mutex_);
    return TakeFront();
  }

  void Close() {
    boost::unique_lock<boost::mutex> lock(mutex_);
    closed_ = true;
    has_room_.notify_all();
    has_item_.notify_all();
  }

  size_t size() const {
    boost::unique_lock<boost::mutex> lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> TakeFront() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    has_room_.notify_one();
    return item;
  }

  const size_t capacity_;
  mutable boost::mutex mutex_;
  boost::condition_variable has_room_, has_item_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_QUEUE_H_
