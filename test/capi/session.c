// Sessions: steps, tests, snapshots, gradients of the program's own, and mistakes.
#include <stdint.h>

#include "test/capi/check.h"

static int CountCalls(void* user) {
  ++*(int*)user;
  return MILLRACE_OK;
}
static int Refuse(void* user) {
  (void)user;
  return millrace_fail("these gradients are not %s", "wanted");
}
static int RefuseSilently(void* user) {
  (void)user;
  return MILLRACE_ERROR;
}

CAPI_TEST(Session) {
  millrace_session* session = NULL;
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_step step = MILLRACE_STEP_INIT;
  millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;
  millrace_array array = MILLRACE_ARRAY_INIT;
  millrace_net* net = NULL;
  const char *state = NULL, *again = NULL;
  size_t outputs = 0, count = 0;
  float rate = 0;
  float* weights = NULL;
  int calls = 0, status = MILLRACE_OK;
  int64_t steps = 0;

  options.join_seconds = 5;
  options.shard_count = 2;
  options.shard_index = 1;
  EXPECT_OK(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &session));
  EXPECT(millrace_session_iteration(session) == 0);
  EXPECT_OK(millrace_session_on_gradients(session, CountCalls, &calls));
  while ((status = millrace_session_step(session, &step)) == MILLRACE_OK) {
    EXPECT(step.iteration == steps++ && step.loss > 0 && step.learning_rate > 0);
    if (steps == 10) EXPECT_OK(millrace_session_snapshot(session, &state));
  }
  EXPECT(status == MILLRACE_END && steps == 20 && calls == 20);
  EXPECT(millrace_session_iteration(session) == 20);
  EXPECT(strstr(state, "session_iter_10.solverstate") != NULL);
  EXPECT_OK(millrace_session_on_gradients(session, NULL, NULL));
  EXPECT(millrace_session_step(session, NULL) == MILLRACE_END);

  EXPECT(millrace_session_test_net_count(session) == 1);
  EXPECT_OK(millrace_session_test(session, 0, &outputs));
  EXPECT(outputs == 2);
  EXPECT_OK(millrace_session_test_output(session, 0, &output));
  EXPECT(strcmp(output.name, "accuracy") == 0 && output.mean >= 0 && output.mean <= 1);
  EXPECT(output.iteration == 20);
  EXPECT_ERROR(millrace_session_test_output(session, 2, &output), "expected less than 2");
  EXPECT_OK(millrace_session_test(session, 0, NULL));

  net = millrace_session_net(session);
  EXPECT(millrace_net_parameter_count(net) == 4);
  EXPECT_OK(millrace_net_weights(net, &weights, NULL, &count));
  EXPECT(weights != NULL && count > 4);
  EXPECT(millrace_net_blob_count(millrace_session_test_net(session, 0)) > 0);
  EXPECT_OK(millrace_net_weights(millrace_session_test_net(session, 0), &weights, NULL, &count));
  EXPECT(weights == NULL && count == 0);
  EXPECT_ERROR(millrace_net_blob(net, "data", &array), "plain_blobs");
  millrace_net_close(net);  // the session's own: nothing happens

  EXPECT_OK(millrace_session_restore(session, state));
  EXPECT(millrace_session_iteration(session) == 10);
  EXPECT_OK(millrace_session_learning_rate(session, &rate));
  EXPECT(rate == step.learning_rate);
  EXPECT_OK(millrace_session_step(session, &step));
  EXPECT(step.iteration == 10);
  EXPECT_OK(millrace_session_snapshot(session, NULL));
  EXPECT_OK(millrace_session_snapshot(session, &again));
  EXPECT(strstr(again, "session_iter_11.solverstate") != NULL);
  EXPECT(millrace_session_is_leader(session) == 1);
  EXPECT_OK(millrace_session_finish(session));
  EXPECT_OK(millrace_session_leave(session));
  millrace_session_close(session);
  millrace_session_close(NULL);
}

CAPI_TEST(SessionByHand) {
  static const char kSolver[] =
      "net_param { layer { name: 'data' type: 'MemoryData' top: 'x' top: 't'"
      "   memory_data_param { batch_size: 2 channels: 1 height: 1 width: 1 } }"
      " layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
      "   inner_product_param { num_output: 1 bias_term: false"
      "     weight_filler { type: 'constant' value: 1 } } }"
      " layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } }"
      " base_lr: 0.5 lr_policy: 'fixed' max_iter: 1 snapshot_after_train: false";
  millrace_session* session = NULL;
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_array weight = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT;
  const float values[2] = {1, 1}, labels[2] = {3, 3};
  millrace_net* net = NULL;

  options.live_blobs = 1;
  options.past_max_iter = 1;
  EXPECT_OK(
      millrace_session_open_text(kSolver, CapiPath(folder, "hand.prototxt"), &options, &session));
  EXPECT_OK(millrace_session_set_memory_data(session, "data", values, 2, labels, 2));
  net = millrace_session_net(session);
  EXPECT_OK(millrace_net_parameter(net, 0, &weight));
  // d/dw of (w - 3)^2 / 2, the mean of both examples.
  EXPECT_OK(millrace_net_forward(net, NULL));
  EXPECT_OK(millrace_net_backward(net));
  EXPECT(weight.diff[0] == -2);
  EXPECT_OK(millrace_session_apply_update(session));
  EXPECT(weight.data[0] == 2);
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT(weight.data[0] == 2.5);
  EXPECT_OK(millrace_session_step(session, NULL));  // past max_iter
  EXPECT(weight.data[0] == 2.75);
  EXPECT_OK(millrace_net_blob(net, "y", &y));
  EXPECT(y.data[0] == 2.5);

  // An error of the callback ends the step, before its update.
  EXPECT_OK(millrace_session_on_gradients(session, Refuse, NULL));
  EXPECT_ERROR(millrace_session_step(session, NULL), "these gradients are not wanted");
  EXPECT(weight.data[0] == 2.75);
  EXPECT_OK(millrace_session_on_gradients(session, RefuseSilently, NULL));
  EXPECT_ERROR(millrace_session_step(session, NULL), "the callback of gradients reported an error");
  millrace_session_close(session);
}

CAPI_TEST(SessionOfTwoSolvers) {
  millrace_session* session = NULL;
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_step step = MILLRACE_STEP_INIT;

  options.solvers = 2;
  EXPECT_OK(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &session));
  EXPECT_OK(millrace_session_step(session, &step));
  EXPECT(step.iteration == 1);
  EXPECT(millrace_session_iteration(session) == 2);
  EXPECT_OK(millrace_session_finish(session));
  millrace_session_close(session);
  options.solvers = -1;
  EXPECT_ERROR(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &session),
               "solvers: -1, expected 1 or more");
  options.solvers = 0;
  options.gpus = "first";
  EXPECT_ERROR(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &session),
               "--gpu=first: expected numbers of GPUs");
}

CAPI_TEST(SessionMistakes) {
  millrace_session* session = NULL;
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_step step = MILLRACE_STEP_INIT;
  millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;
  const char* const weights[] = {"none.caffemodel", NULL};
  const char* const solver = CapiPath(folder, "session.prototxt");
  float rate = 0;
  const float value = 0;

  EXPECT_ERROR(millrace_session_open(NULL, NULL, &session), "solver_file is NULL");
  EXPECT_ERROR(millrace_session_open(solver, NULL, NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_open(CapiPath(folder, "none.prototxt"), NULL, &session), "none");
  EXPECT_ERROR(millrace_session_open_text(NULL, "x", NULL, &session), "text is NULL");
  EXPECT_ERROR(millrace_session_open_text("base_lr: 1", NULL, NULL, &session), "name is NULL");
  EXPECT_ERROR(millrace_session_open_text("base_lr: x", "bad.prototxt", NULL, &session),
               "bad.prototxt");
  options.weights = weights;
  EXPECT_ERROR(millrace_session_open(solver, &options, &session), "none.caffemodel");
  options.weights = NULL;
  options.snapshot = "none.solverstate";
  EXPECT_ERROR(millrace_session_open(solver, &options, &session), "none.solverstate");
  options.snapshot = NULL;
  options.topology = "none.prototxt";
  options.node = "a";
  EXPECT_ERROR(millrace_session_open(solver, &options, &session), "none.prototxt");
  options.topology = NULL;
  options.join_seconds = -1;
  EXPECT_ERROR(millrace_session_open(solver, &options, &session), "join_seconds is -1");
  options.size = 8;
  EXPECT_ERROR(millrace_session_open(solver, &options, &session), "millrace_session_options: size");
  EXPECT(session == NULL);

  EXPECT_ERROR(millrace_session_step(NULL, &step), "session is NULL");
  EXPECT_VALUE_ERROR(millrace_session_iteration(NULL), -1, "session is NULL");
  EXPECT_ERROR(millrace_session_learning_rate(NULL, &rate), "session is NULL");
  EXPECT_ERROR(millrace_session_on_gradients(NULL, NULL, NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_apply_update(NULL), "session is NULL");
  EXPECT_VALUE_ERROR(millrace_session_net(NULL), NULL, "session is NULL");
  EXPECT_VALUE_ERROR(millrace_session_test_net(NULL, 0), NULL, "session is NULL");
  EXPECT_VALUE_ERROR(millrace_session_test_net_count(NULL), 0, "session is NULL");
  EXPECT_ERROR(millrace_session_set_memory_data(NULL, "x", &value, 1, &value, 1),
               "session is NULL");
  EXPECT_ERROR(millrace_session_test(NULL, 0, NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_test_output(NULL, 0, &output), "session is NULL");
  EXPECT_ERROR(millrace_session_snapshot(NULL, NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_restore(NULL, "x"), "session is NULL");
  EXPECT_ERROR(millrace_session_is_leader(NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_finish(NULL), "session is NULL");
  EXPECT_ERROR(millrace_session_leave(NULL), "session is NULL");

  EXPECT_OK(millrace_session_open(solver, NULL, &session));
  EXPECT_ERROR(millrace_session_learning_rate(session, NULL), "rate is NULL");
  EXPECT_ERROR(millrace_session_test(session, 1, NULL), "net is 1, expected less than 1");
  EXPECT_VALUE_ERROR(millrace_session_test_net(session, 1), NULL, "index is 1");
  EXPECT_ERROR(millrace_session_test_output(session, 0, &output), "expected less than 0");
  EXPECT_ERROR(millrace_session_test_output(session, 0, NULL), "millrace_test_output is NULL");
  EXPECT_ERROR(millrace_session_restore(session, NULL), "snapshot is NULL");
  EXPECT_ERROR(millrace_session_restore(session, solver), "session.prototxt");
  EXPECT_ERROR(millrace_session_set_memory_data(session, "data", &value, 1, &value, 1), "data");
  EXPECT_ERROR(millrace_session_set_memory_data(session, NULL, &value, 1, &value, 1),
               "layer is NULL");
  step.size = 3;
  EXPECT_ERROR(millrace_session_step(session, &step), "millrace_step: size is 3");
  EXPECT(millrace_session_iteration(session) == 0);
  millrace_session_close(session);
}
