// Runs in the background: commands, status, results, and the errors that end them.
#include "test/capi/check.h"

// Until the run has made `iterations`; 1 unless it ends before.
static int WaitForIteration(millrace_run* run, int64_t iterations) {
  millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
  do {
    EXPECT(millrace_run_wait_for(run, 0.01) != MILLRACE_ERROR);
    if (millrace_run_get_status(run, &status) != MILLRACE_OK) return 0;
    if (status.state == MILLRACE_RUN_ENDED) return 0;
  } while (status.iteration < iterations);
  return 1;
}

CAPI_TEST(Run) {
  millrace_run* run = NULL;
  millrace_run_options options = MILLRACE_RUN_OPTIONS_INIT;
  millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
  millrace_run_result result = MILLRACE_RUN_RESULT_INIT;
  millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;
  int found = MILLRACE_END;

  options.solver_file = CapiPath(folder, "endless.prototxt");
  options.cpus = 2;
  EXPECT_OK(millrace_run_start(&options, &run));
  EXPECT(WaitForIteration(run, 20));
  EXPECT_OK(millrace_run_pause(run));
  do {
    EXPECT(millrace_run_wait_for(run, 0.01) == MILLRACE_END);
    EXPECT_OK(millrace_run_get_status(run, &status));
  } while (status.state != MILLRACE_RUN_PAUSED);
  EXPECT(status.max_iteration == 1000000 && status.loss > 0 && status.learning_rate > 0);
  EXPECT(status.snapshot_iteration == -1 && strcmp(status.snapshot, "") == 0);
  EXPECT(status.seconds > 0 && status.images_per_iteration == 8);
  // In a pause, a test and a snapshot.
  EXPECT_OK(millrace_run_test(run));
  do {  // the first test was at iteration 0
    EXPECT(millrace_run_wait_for(run, 0.01) == MILLRACE_END);
    found = millrace_run_test_output(run, 0, 0, &output);
  } while (found == MILLRACE_END || output.iteration == 0);
  EXPECT(found == MILLRACE_OK && strcmp(output.name, "accuracy") == 0);
  EXPECT(output.iteration >= 20 && output.mean >= 0);
  EXPECT(millrace_run_test_output(run, 0, 7, &output) == MILLRACE_END);
  EXPECT(millrace_run_test_output(run, 1, 0, &output) == MILLRACE_END);
  EXPECT_OK(millrace_run_snapshot(run));
  do {
    EXPECT(millrace_run_wait_for(run, 0.01) == MILLRACE_END);
    EXPECT_OK(millrace_run_get_status(run, &status));
  } while (status.snapshot_iteration < 0);
  EXPECT(strstr(status.snapshot, ".solverstate") != NULL);

  EXPECT_OK(millrace_run_set_learning_rate(run, 0.125f));
  EXPECT_OK(millrace_run_resume(run));
  do {
    EXPECT(millrace_run_wait_for(run, 0.01) == MILLRACE_END);
    EXPECT_OK(millrace_run_get_status(run, &status));
  } while (status.learning_rate != 0.125);
  EXPECT_ERROR(millrace_run_set_learning_rate(run, -1), "-1");
  EXPECT_OK(millrace_run_stop(run));
  EXPECT_OK(millrace_run_wait(run, &result));
  EXPECT(result.stopped_early == 1 && result.iteration > 20 && result.loss > 0);
  EXPECT(strstr(result.model, ".caffemodel") != NULL);
  EXPECT(strstr(result.state, ".solverstate") != NULL);
  EXPECT_OK(millrace_run_wait(run, NULL));
  EXPECT_OK(millrace_run_wait_for(run, 0));
  EXPECT_OK(millrace_run_get_status(run, &status));
  EXPECT(status.state == MILLRACE_RUN_ENDED);
  millrace_run_close(run);

  // Closed while it trains.
  run = NULL;
  options.cpus = 0;
  options.metrics = 1;
  EXPECT_OK(millrace_run_start(&options, &run));
  EXPECT(WaitForIteration(run, 1));
  millrace_run_close(run);
  millrace_run_close(NULL);
}

CAPI_TEST(RunMistakes) {
  millrace_run* run = NULL;
  millrace_run_options options = MILLRACE_RUN_OPTIONS_INIT;
  millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
  millrace_run_result result = MILLRACE_RUN_RESULT_INIT;
  millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;

  EXPECT_ERROR(millrace_run_start(&options, &run), "millrace_run_options.solver_file is NULL");
  EXPECT_ERROR(millrace_run_start(NULL, &run), "millrace_run_options is NULL");
  options.solver_file = CapiPath(folder, "none.prototxt");
  EXPECT_ERROR(millrace_run_start(&options, NULL), "run is NULL");
  options.cpus = -2;
  EXPECT_ERROR(millrace_run_start(&options, &run), "cpus is -2");
  options.cpus = 0;
  options.size = 1;
  EXPECT_ERROR(millrace_run_start(&options, &run), "millrace_run_options: size is 1");
  EXPECT(run == NULL);

  EXPECT_ERROR(millrace_run_get_status(NULL, &status), "run is NULL");
  EXPECT_ERROR(millrace_run_test_output(NULL, 0, 0, &output), "run is NULL");
  EXPECT_ERROR(millrace_run_pause(NULL), "millrace_run_pause: run is NULL");
  EXPECT_ERROR(millrace_run_resume(NULL), "run is NULL");
  EXPECT_ERROR(millrace_run_snapshot(NULL), "run is NULL");
  EXPECT_ERROR(millrace_run_test(NULL), "run is NULL");
  EXPECT_ERROR(millrace_run_set_learning_rate(NULL, 1), "run is NULL");
  EXPECT_ERROR(millrace_run_stop(NULL), "run is NULL");
  EXPECT_ERROR(millrace_run_wait_for(NULL, 1), "run is NULL");
  EXPECT_ERROR(millrace_run_wait(NULL, &result), "run is NULL");

  // A file that is missing ends the run.
  options.size = sizeof(options);
  EXPECT_OK(millrace_run_start(&options, &run));
  EXPECT_ERROR(millrace_run_wait(run, &result), "none.prototxt");
  EXPECT_ERROR(millrace_run_wait(run, NULL), "none.prototxt");
  EXPECT_ERROR(millrace_run_wait_for(run, -1), "seconds is -1");
  EXPECT_ERROR(millrace_run_get_status(run, NULL), "millrace_run_status is NULL");
  EXPECT_ERROR(millrace_run_test_output(run, 0, 0, NULL), "millrace_test_output is NULL");
  status.size = 4;
  EXPECT_ERROR(millrace_run_get_status(run, &status), "millrace_run_status: size is 4");
  result.size = 4;
  EXPECT_ERROR(millrace_run_wait(run, &result), "millrace_run_result: size is 4");
  millrace_run_close(run);
}
