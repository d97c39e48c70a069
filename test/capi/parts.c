// Samplers, sync conditions, stop conditions and merge rules as tables of functions.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "millrace/plugin.h"
#include "test/capi/check.h"

// The solver file that the tests' C++ part has written, with further fields; FOLDER/parts.prototxt.
static int OpenWith(const char* folder, const char* fields, millrace_session** session) {
  char text[4000];
  *session = NULL;
  snprintf(text, sizeof(text),
           "net: '%s' base_lr: 0.01 lr_policy: 'fixed' max_iter: 40 test_iter: 2"
           " test_interval: 1000 snapshot_after_train: false %s",
           CapiPath(folder, "net.prototxt"), fields);
  return millrace_session_open_text(text, CapiPath(folder, LANGUAGE "_parts.prototxt"), NULL,
                                    session);
}

static int Steps(millrace_session* session) {
  int steps = 0, status = MILLRACE_OK;
  while ((status = millrace_session_step(session, NULL)) == MILLRACE_OK) ++steps;
  EXPECT(status == MILLRACE_END);
  return steps;
}

static millrace_parameter Parameter(const char* name, double otherwise, double min, double max) {
  millrace_parameter parameter;
  memset(&parameter, 0, sizeof(parameter));
  parameter.size = sizeof(parameter);
  parameter.name = name;
  parameter.otherwise = otherwise;
  parameter.min = min;
  parameter.max = max;
  return parameter;
}

// ---- Samplers ----

typedef struct Sampler {
  uint64_t first, labelled;
} Sampler;

static int samplers = 0;

static int CreateSampler(void* user, const millrace_values* values,
                         const millrace_sampled_data* data, void** state) {
  Sampler* made = NULL;
  uint64_t i = 0;
  EXPECT(user == &samplers && data->size == sizeof(*data) && data->records == 64);
  EXPECT(data->labels != NULL && isnan(millrace_value(values, "none")));
  EXPECT(CapiErrorHas("there is no parameter 'none'") && isnan(millrace_value(values, NULL)));
  EXPECT(isnan(millrace_value(NULL, "first")));
  if (millrace_value(values, "first") == 13) return millrace_fail("first is 13, which is unlucky");
  made = (Sampler*)calloc(1, sizeof(Sampler));
  made->first = (uint64_t)millrace_value(values, "first");
  for (i = 0; i < data->records; ++i) made->labelled += data->labels[i] == 1;
  EXPECT(made->labelled == 16);
  *state = made;
  ++samplers;
  return MILLRACE_OK;
}
static void DestroySampler(void* state) {
  free(state);
  --samplers;
}
// Beyond the last record, too: the number counts modulo their number.
static uint64_t Record(const void* state, uint64_t records, uint64_t epoch, uint64_t number) {
  EXPECT(records == 64 && number < records);
  return ((const Sampler*)state)->first + epoch + number;
}

CAPI_TEST(Sampler) {
  millrace_parameter first = Parameter("first", 3, 0, INFINITY);
  const millrace_parameter* const parameters[] = {&first, NULL};
  millrace_sampler_type type;
  millrace_session* session = NULL;

  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_sampler(&type), "millrace_sampler_type: size is 0");
  EXPECT_ERROR(millrace_register_sampler(NULL), "millrace_sampler_type is NULL");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_sampler(&type), "name is NULL");
  type.name = LANGUAGE "_rotate";
  EXPECT_ERROR(millrace_register_sampler(&type), "record is NULL");
  type.user = &samplers;
  type.parameters = parameters;
  type.needs_labels = 1;
  type.create = CreateSampler;
  type.destroy = DestroySampler;
  type.record = Record;
  first.size = 7;
  EXPECT_ERROR(millrace_register_sampler(&type), "millrace_parameter: size is 7");
  first.size = sizeof(first);
  first.name = NULL;
  EXPECT_ERROR(millrace_register_sampler(&type), "name of a parameter is NULL");
  first.name = "first";
  first.whole = 1;
  EXPECT_OK(millrace_register_sampler(&type));

  EXPECT_OK(OpenWith(folder, "sampler { type: '" LANGUAGE "_rotate' }", &session));
  EXPECT(Steps(session) == 40 && samplers > 0);
  millrace_session_close(session);
  EXPECT(samplers == 0);
  EXPECT_ERROR(
      OpenWith(folder, "sampler { type: '" LANGUAGE "_rotate' param { key: 'first' value: 0.5 } }",
               &session),
      "first is 0.5, expected a whole number");
  EXPECT_ERROR(
      OpenWith(folder, "sampler { type: '" LANGUAGE "_rotate' param { key: 'first' value: 13 } }",
               &session),
      "first is 13, which is unlucky");
}

// ---- Sync conditions ----

static int merges = 0;

static int CreateSync(void* user, const millrace_values* values, void** state) {
  double* const made = (double*)calloc(2, sizeof(double));
  EXPECT(user == &merges);
  made[0] = millrace_value(values, "every");
  *state = made;
  return MILLRACE_OK;
}
static int Fires(void* state, const millrace_sync_state* solver) {
  EXPECT(solver->size == sizeof(*solver) && solver->weights != NULL && solver->count > 0);
  EXPECT(solver->shared_iterations >= solver->iterations && solver->seconds >= 0);
  return solver->base != NULL && (double)solver->iterations >= ((double*)state)[0];
}
static void Merging(void* state, const millrace_sync_state* solver) {
  (void)solver;
  ++merges;
  ++((double*)state)[1];
}
static void Save(const void* state, double* numbers) { numbers[0] = ((const double*)state)[1]; }
static void Restore(void* state, const double* numbers) { ((double*)state)[1] = numbers[0]; }
static int FiresAlways(void* state, const millrace_sync_state* solver) {
  EXPECT(state == NULL && solver->weights == NULL && solver->count == 0);
  return 1;
}

CAPI_TEST(SyncCondition) {
  millrace_parameter every = Parameter("every", 0, 1, 100);
  const millrace_parameter* const parameters[] = {&every, NULL};
  millrace_sync_type type;
  millrace_session* session = NULL;

  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_sync(&type), "millrace_sync_type: size is 0");
  EXPECT_ERROR(millrace_register_sync(NULL), "millrace_sync_type is NULL");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_sync(&type), "name is NULL");
  type.name = LANGUAGE "_always";
  EXPECT_ERROR(millrace_register_sync(&type), "fires is NULL");
  type.fires = FiresAlways;
  type.ignores_weights = 1;
  EXPECT_OK(millrace_register_sync(&type));
  type.name = LANGUAGE "_every";
  type.ignores_weights = 0;
  type.user = &merges;
  type.parameters = parameters;
  type.create = CreateSync;
  type.destroy = free;
  type.fires = Fires;
  type.merging = Merging;
  type.saved_numbers = 1;
  EXPECT_ERROR(millrace_register_sync(&type), "save is NULL");
  type.save = Save;
  EXPECT_ERROR(millrace_register_sync(&type), "restore is NULL");
  type.restore = Restore;
  type.saved_numbers = (size_t)-1;
  EXPECT_ERROR(millrace_register_sync(&type), "saved_numbers is");
  type.saved_numbers = 1;
  every.required = 1;
  EXPECT_OK(millrace_register_sync(&type));

  merges = 0;
  EXPECT_OK(OpenWith(folder,
                     "strategy { type: 'local' sync_condition { type: '" LANGUAGE
                     "_every' param { key: 'every' value: 10 } } }",
                     &session));
  EXPECT(Steps(session) == 40 && merges == 4);
  EXPECT_OK(millrace_session_snapshot(session, NULL));
  EXPECT_OK(millrace_session_finish(session));
  millrace_session_close(session);
  EXPECT_OK(OpenWith(folder,
                     "strategy { type: 'local' sync_condition { type: '" LANGUAGE "_always' } }",
                     &session));
  EXPECT(Steps(session) == 40);
  millrace_session_close(session);
  EXPECT_ERROR(
      OpenWith(folder, "strategy { type: 'local' sync_condition { type: '" LANGUAGE "_every' } }",
               &session),
      "every");
}

// ---- Stop conditions ----

static int CreateStop(void* user, const millrace_values* values, void** state) {
  double* const made = (double*)malloc(sizeof(double));
  EXPECT(user == NULL);
  *made = millrace_value(values, "after");
  *state = made;
  return MILLRACE_OK;
}
static int AfterIteration(void* state, const millrace_progress* progress, const char** why) {
  EXPECT(progress->size == sizeof(*progress) && progress->seconds >= 0);
  if (*(double*)state == 13 && progress->iterations == 13) return millrace_fail("13 is too much");
  if ((double)progress->iterations >= *(double*)state) *why = "that is enough";
  return MILLRACE_OK;
}
static int AfterTest(void* state, const millrace_tested* test, const char** why) {
  EXPECT(test->size == sizeof(*test) && test->net == 0 && test->count == 2);
  EXPECT(test->iteration == 2 && test->outputs[0] >= 0);
  if (*(double*)state == 14) return millrace_fail("no test, please");
  *why = "it has been tested";
  return MILLRACE_OK;
}

CAPI_TEST(StopCondition) {
  millrace_parameter after = Parameter("after", 5, 1, 100);
  const millrace_parameter* const parameters[] = {&after, NULL};
  millrace_stop_type type;
  millrace_session* session = NULL;

  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_stop(&type), "millrace_stop_type: size is 0");
  EXPECT_ERROR(millrace_register_stop(NULL), "millrace_stop_type is NULL");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_stop(&type), "name is NULL");
  type.name = LANGUAGE "_enough";
  EXPECT_ERROR(millrace_register_stop(&type), "after_iteration and after_test are NULL");
  type.parameters = parameters;
  type.needs_tests = 1;
  type.create = CreateStop;
  type.destroy = free;
  type.after_iteration = AfterIteration;
  type.after_test = AfterTest;
  EXPECT_OK(millrace_register_stop(&type));

  EXPECT_OK(OpenWith(folder, "stop_condition { type: '" LANGUAGE "_enough' }", &session));
  EXPECT(Steps(session) == 5);
  millrace_session_close(session);

  EXPECT_OK(OpenWith(
      folder, "stop_condition { type: '" LANGUAGE "_enough' param { key: 'after' value: 13 } }",
      &session));
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT_OK(millrace_session_test(session, 0, NULL));
  EXPECT(Steps(session) == 0);
  millrace_session_close(session);

  EXPECT_OK(OpenWith(
      folder, "stop_condition { type: '" LANGUAGE "_enough' param { key: 'after' value: 13 } }",
      &session));
  while (millrace_session_step(session, NULL) == MILLRACE_OK) {
  }
  EXPECT(CapiErrorHas("13 is too much") && millrace_session_iteration(session) == 13);
  millrace_session_close(session);

  EXPECT_OK(OpenWith(
      folder, "stop_condition { type: '" LANGUAGE "_enough' param { key: 'after' value: 14 } }",
      &session));
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT_ERROR(millrace_session_test(session, 0, NULL), "no test, please");
  millrace_session_close(session);
}

// What a callback reports ends a run, too.
CAPI_TEST(RunEndsWithTheTextOfACallback) {
  const char* const solver = CapiPath(folder, LANGUAGE "_stops.prototxt");
  FILE* const file = fopen(solver, "w");
  millrace_run_options options = MILLRACE_RUN_OPTIONS_INIT;
  millrace_stop_type type;
  millrace_parameter after = Parameter("after", 13, 1, 100);
  const millrace_parameter* const parameters[] = {&after, NULL};
  millrace_run* run = NULL;

  memset(&type, 0, sizeof(type));
  type.size = sizeof(type);
  type.name = LANGUAGE "_unlucky";
  type.parameters = parameters;
  type.create = CreateStop;
  type.destroy = free;
  type.after_iteration = AfterIteration;
  EXPECT_OK(millrace_register_stop(&type));
  fprintf(file,
          "net: '%s' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1000 snapshot_after_train: false"
          " stop_condition { type: '" LANGUAGE "_unlucky' }",
          CapiPath(folder, "net.prototxt"));
  fclose(file);
  options.solver_file = solver;
  EXPECT_OK(millrace_run_start(&options, &run));
  EXPECT_ERROR(millrace_run_wait(run, NULL), "13 is too much");
  millrace_run_close(run);
}

// ---- Merge rules ----

static int CreateMerge(void* user, const millrace_values* values, void** state) {
  float* made = NULL;
  (void)user;
  if (millrace_value(values, "share") == 0.25) return millrace_fail("share is 0.25: too little");
  made = (float*)malloc(sizeof(float));
  *made = (float)millrace_value(values, "share");
  *state = made;
  return MILLRACE_OK;
}
static float RestDistance(void* user, const millrace_values* values) {
  (void)user;
  return (float)millrace_value(values, "rest");
}
// Sends all and applies a share; what is left comes to rest.
static void Select(const void* state, const float* u, float* selected, size_t count) {
  size_t i = 0;
  EXPECT(state != NULL);
  for (i = 0; i < count; ++i) selected[i] = fabsf(u[i]) > 1e-3f ? u[i] : 0;
}
static void Residual(const void* state, const float* u, const float* d, float* rest, size_t count) {
  size_t i = 0;
  EXPECT(state != NULL);
  for (i = 0; i < count; ++i) rest[i] = u[i] - d[i];
}
static void ApplyShare(const void* state, float* w, const float* d, float* numbers, size_t count,
                       uint32_t staleness) {
  size_t i = 0;
  (void)staleness;
  for (i = 0; i < count; ++i) {
    numbers[i] += 1;
    w[i] += *(const float*)state * d[i];
  }
}

CAPI_TEST(MergeRule) {
  enum { kWeights = 1000 };
  millrace_parameter share = Parameter("share", 0.5, 0.1, 1);
  millrace_parameter rest = Parameter("rest", 1e-3, 1e-4, 1);
  const millrace_parameter* const parameters[] = {&share, &rest, NULL};
  millrace_merge_type type;
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream *a = NULL, *b = NULL;
  float *a_weights = millrace_floats_alloc(kWeights), *b_weights = millrace_floats_alloc(kWeights);
  float *delta = millrace_floats_alloc(kWeights), *merged = millrace_floats_alloc(kWeights);
  int i = 0;

  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_merge(&type), "millrace_merge_type: size is 0");
  EXPECT_ERROR(millrace_register_merge(NULL), "millrace_merge_type is NULL");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_merge(&type), "name is NULL");
  type.name = LANGUAGE "_share";
  EXPECT_ERROR(millrace_register_merge(&type), "select is NULL");
  type.select = Select;
  EXPECT_ERROR(millrace_register_merge(&type), "residual is NULL");
  type.residual = Residual;
  EXPECT_ERROR(millrace_register_merge(&type), "apply is NULL");
  type.apply = ApplyShare;
  type.parameters = parameters;
  type.state_floats = 1;
  type.rest_distance = RestDistance;
  type.create = CreateMerge;
  type.destroy = free;
  share.whole = 1;
  EXPECT_ERROR(millrace_register_merge(&type), "parameter share: whole or required is set");
  share.whole = 0;
  EXPECT_OK(millrace_register_merge(&type));

  options.topology = CapiPath(folder, LANGUAGE "_little.prototxt");
  options.node = "a";
  EXPECT_ERROR(millrace_stream_open(&options, a_weights, kWeights, &a),
               "share is 0.25: too little");
  options.topology = CapiPath(folder, LANGUAGE "_merge.prototxt");
  EXPECT_OK(millrace_stream_open(&options, a_weights, kWeights, &a));
  options.node = "b";
  EXPECT_OK(millrace_stream_open(&options, b_weights, kWeights, &b));
  EXPECT_OK(millrace_stream_join(a, 120));
  EXPECT_OK(millrace_stream_join(b, 120));
  while (millrace_stream_nodes(a) < 2) EXPECT_OK(millrace_stream_read_merged(a, merged, kWeights));
  for (i = 0; i < kWeights; ++i) delta[i] = 8;
  // The master of a chunk has what it adds itself, and half of what the other one sends.
  EXPECT_OK(millrace_stream_add(a, delta, kWeights));
  EXPECT_OK(millrace_stream_add(b, delta, kWeights));
  EXPECT_OK(millrace_stream_leave(b));
  while (millrace_stream_nodes(a) == 2) EXPECT_OK(millrace_stream_read_merged(a, merged, kWeights));
  EXPECT_OK(millrace_stream_finish(a));
  for (i = 0; i < kWeights; ++i) EXPECT(fabs(a_weights[i] - 12) < 0.1);
  millrace_stream_close(a);
  millrace_stream_close(b);
  millrace_floats_free(a_weights);
  millrace_floats_free(b_weights);
  millrace_floats_free(delta);
  millrace_floats_free(merged);
}
