// Fake devices that the program finds by their names, as "fake:0".
#ifndef MILLRACE_TEST_GPU_LISTED_FAKES_H_
#define MILLRACE_TEST_GPU_LISTED_FAKES_H_

#include <vector>

#include "millrace/device.h"

namespace millrace::test {

struct ListedFakes {
  // The devices there are from now on. They outlive the next call.
  static void Set(std::vector<Device*> devices);
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_GPU_LISTED_FAKES_H_
