// A control service in C, with a command in C.
#define _POSIX_C_SOURCE 200809L  // popen

#include <stdio.h>
#include <stdlib.h>

#include "millrace/plugin.h"
#include "test/capi/check.h"

static int calls = 0;  // of another thread than the test's

static int Faster(millrace_call* call, void* user, const char* arguments) {
  millrace_run* const run = millrace_call_run(call);
  millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
  char json[100];
  EXPECT(user == &calls && run != NULL);
  if (strcmp(arguments, "2") != 0) return millrace_fail("expected 2");
  EXPECT_OK(millrace_run_get_status(run, &status));
  EXPECT_OK(millrace_run_set_learning_rate(run, 0.5f));
  EXPECT_ERROR(millrace_run_wait(run, NULL), "a command cannot wait for its run");
  EXPECT_ERROR(millrace_call_return(call, NULL), "json is NULL");
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  snprintf(json, sizeof(json), "{\"rate\":0.5,\"state\":%d}", status.state);
  return millrace_call_return(call, json);
}

// The output of `millrace ctl` for the service, and its errors.
static void Ctl(const char* url, const char* arguments, char* output, size_t size) {
  char command[1000];
  FILE* pipe = NULL;
  size_t length = 0;
  snprintf(command, sizeof(command), "%s ctl --control=%s %s 2>&1", getenv("MILLRACE_TEST_PROGRAM"),
           url + strlen("http://"), arguments);
  pipe = popen(command, "r");
  EXPECT(pipe != NULL);
  if (pipe == NULL) return;
  length = fread(output, 1, size - 1, pipe);
  output[length] = 0;
  pclose(pipe);
}

CAPI_TEST(Control) {
  const char* const name = LANGUAGE ".faster";
  millrace_command_type type;
  millrace_run* run = NULL;
  millrace_run_options run_options = MILLRACE_RUN_OPTIONS_INIT;
  millrace_control* control = NULL;
  millrace_control_options options = MILLRACE_CONTROL_OPTIONS_INIT;
  char output[4000];

  memset(&type, 0, sizeof(type));
  type.size = sizeof(type);
  type.name = name;
  type.help = "Halves the time.";
  type.user = &calls;
  EXPECT_ERROR(millrace_register_command(&type), "run is NULL, expected a function");
  type.run = Faster;
  EXPECT_OK(millrace_register_command(&type));

  run_options.solver_file = CapiPath(folder, "endless.prototxt");
  EXPECT_OK(millrace_run_start(&run_options, &run));
  options.address = "nowhere";
  EXPECT_ERROR(millrace_control_open(&options, run, &control), "nowhere");
  options.address = "127.0.0.1:0";
  EXPECT_ERROR(millrace_control_open(&options, NULL, &control), "run is NULL");
  EXPECT_OK(millrace_control_open(&options, run, &control));
  EXPECT(strncmp(millrace_control_url(control), "http://127.0.0.1:", 17) == 0);
  EXPECT_VALUE_ERROR(millrace_control_url(NULL), NULL, "control is NULL");

  Ctl(millrace_control_url(control), "call " LANGUAGE ".faster 2", output, sizeof(output));
  EXPECT(__atomic_load_n(&calls, __ATOMIC_RELAXED) > 0 && strstr(output, "{\"rate\":0.5") != NULL);
  Ctl(millrace_control_url(control), "call " LANGUAGE ".faster 3", output, sizeof(output));
  EXPECT(strstr(output, "expected 2") != NULL);
  millrace_control_close(control);
  millrace_control_close(NULL);
  millrace_run_close(run);

  // The default address; the options may be left out.
  run = NULL;
  EXPECT_OK(millrace_run_start(&run_options, &run));
  EXPECT_OK(millrace_control_open(NULL, run, &control));
  millrace_control_close(control);
  millrace_run_close(run);
  EXPECT_VALUE_ERROR(millrace_call_run(NULL), NULL, "call is NULL");
}
