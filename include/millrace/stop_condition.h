// Interface of a stop condition: what ends a run before max_iter (docs/learning.md). A solver file
// names any number of them; the run ends when any of them says so.
//
//   stop_condition { type: "target" param { key: "value" value: 0.99 } }
//
// A condition of one's own:
//
//   class MyCondition : public millrace::StopCondition {
//    public:
//     std::string AfterIteration(const millrace::RunProgress& run) override {
//       return Enough(run) ? "there is enough" : "";
//     }
//   };
//   const millrace::RegisterStopCondition registered(
//       {.name = "mine"}, [](const millrace::PartValues&) {
//         return std::make_unique<MyCondition>();
//       });
#ifndef MILLRACE_STOP_CONDITION_H_
#define MILLRACE_STOP_CONDITION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "millrace/export.h"
#include "millrace/part.h"

namespace millrace {

struct RunProgress {
  int64_t iterations = 0;  // completed by all solvers of the run, also before a resume
  double seconds = 0;      // since this process began to train
};

struct TestedOutputs {
  int64_t iteration = 0;            // of the test
  int net = 0;                      // index of the test net
  std::span<const double> outputs;  // their means, in the order of the log
};

// One instance belongs to one run of a process, which calls it from one thread at a time.
// Conditions are not saved: a resumed run starts with new ones.
class MILLRACE_API StopCondition {
 public:
  virtual ~StopCondition() = default;
  // After an iteration of a solver, and after each complete test: why the run has to end, in one
  // line; "" if it goes on. Throw Error in one line, which ends the run as failed.
  virtual std::string AfterIteration(const RunProgress& run) {
    (void)run;
    return "";
  }
  virtual std::string AfterTest(const TestedOutputs& test) {
    (void)test;
    return "";
  }
};

// Gets complete, checked values. Throws Error in one line if they contradict each other.
using StopConditionFactory =
    std::function<std::unique_ptr<StopCondition>(const PartValues& values)>;

// Registers a condition. Define one at namespace scope. The first condition of a name stays. A
// second one, or a descriptor with a mistake, is an error when plugins are loaded and when a
// session or run starts.
struct MILLRACE_API RegisterStopCondition {
  // `needs_tests`: a solver file without test nets cannot name it. A parameter `net` is then the
  // index of one of them.
  RegisterStopCondition(PartDescriptor descriptor, StopConditionFactory make,
                        bool needs_tests = false);
};

}  // namespace millrace

#endif  // MILLRACE_STOP_CONDITION_H_
