// Numbers in environment variables that select the seeds of a simulation.
#ifndef MILLRACE_TEST_SIM_SETTING_H_
#define MILLRACE_TEST_SIM_SETTING_H_

#include <cstdint>
#include <cstdlib>

namespace millrace::sim {

inline int64_t Setting(const char* name, int64_t default_value) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : default_value;
}

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SETTING_H_
