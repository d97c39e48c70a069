// Threads of tests.
#ifndef MILLRACE_TEST_SUPPORT_TEST_THREAD_H_
#define MILLRACE_TEST_SUPPORT_TEST_THREAD_H_

#include <gtest/gtest.h>

#include <exception>
#include <thread>
#include <utility>

namespace millrace::test {

// Joins at the end of the scope. An exception in the thread, such as of a GPU that has failed, is a
// failure of the test and does not end the program.
class TestThread {
 public:
  template <typename Run>
  explicit TestThread(Run run)
      : thread_([run = std::move(run)]() mutable {
          try {
            run();
          } catch (const std::exception& error) {
            ADD_FAILURE() << "in a thread of the test: " << error.what();
          }
        }) {}
  ~TestThread() { Join(); }
  TestThread(TestThread&&) = default;

  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_TEST_THREAD_H_
