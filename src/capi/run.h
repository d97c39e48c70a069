// The handle of a run in C.
#ifndef MILLRACE_CAPI_RUN_H_
#define MILLRACE_CAPI_RUN_H_

#include <memory>

#include "capi/texts.h"
#include "millrace/run.h"

struct millrace_run {
  explicit millrace_run(std::unique_ptr<millrace::Run> started)
      : own(std::move(started)), run(own.get()) {}
  explicit millrace_run(millrace::RunHandle* of_a_call) : run(of_a_call) {}

  const std::unique_ptr<millrace::Run> own;  // null for the run of a command's call
  millrace::RunHandle* const run;
  millrace::Texts texts;
};

#endif  // MILLRACE_CAPI_RUN_H_
