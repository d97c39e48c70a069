// A data source and an update rule as tables of functions: a session trains with both.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "millrace/plugin.h"
#include "test/capi/check.h"

// Two classes of points: the sign of the first value. Each reader has a number of its own.
typedef struct Reader {
  float values[2];
  char key[20];
} Reader;

static int readers = 0, sources = 0;
static uint64_t bad_record = UINT64_MAX;

static int OpenSource(void* user, const char* path, void** source, uint64_t* records) {
  EXPECT(user == &sources);
  if (strcmp(path, "none") == 0) return millrace_fail("%s: there is no such set of points", path);
  *records = strcmp(path, "empty") == 0 ? 0 : 64;
  *source = user;
  ++sources;
  return MILLRACE_OK;
}
static void CloseSource(void* source) { --*(int*)source; }
static int OpenReader(void* source, int random_access, void** reader) {
  EXPECT(source == &sources && (random_access == 0 || random_access == 1));
  *reader = calloc(1, sizeof(Reader));
  ++readers;
  return *reader == NULL ? millrace_fail("out of memory") : MILLRACE_OK;
}
static void CloseReader(void* reader) {
  free(reader);
  --readers;
}
static int Read(void* state, uint64_t index, millrace_record* record) {
  Reader* const reader = (Reader*)state;
  const int label = (int)(index % 2);
  if (index == bad_record) return millrace_fail("record %d is unreadable", (int)index);
  reader->values[0] = (float)(label == 0 ? -1 : 1) * (float)(1 + index % 5);
  reader->values[1] = (float)(index % 7) - 3;
  snprintf(reader->key, sizeof(reader->key), "point %d", (int)index);
  record->key = reader->key;
  record->floats = reader->values;
  record->channels = 2;
  record->height = record->width = 1;
  record->label = label;
  return MILLRACE_OK;
}

// The same as bytes, read from the source itself.
static int ReadBytes(void* source, uint64_t index, millrace_record* record) {
  static const uint8_t kBytes[2][2] = {{50, 0}, {0, 50}};
  EXPECT(source == NULL);
  record->bytes = kBytes[index % 2];
  record->channels = 2;
  record->height = record->width = 1;
  record->label = (int)(index % 2);
  // Mistakes that a record may have.
  if (bad_record == 1) record->channels = 0;
  if (bad_record == 2) record->bytes = NULL;
  if (bad_record == 3) record->height = record->width = 1 << 20;
  return MILLRACE_OK;
}
static int OpenBytes(void* user, const char* path, void** source, uint64_t* records) {
  (void)user, (void)path, (void)source;
  *records = 64;
  return MILLRACE_OK;
}

static int OpenSolver(const char* source, const char* fields, millrace_session** session) {
  char text[4000];
  *session = NULL;
  snprintf(text, sizeof(text),
           "net_param { layer { name: 'data' type: 'Data' top: 'x' top: 'label'"
           "   data_param { source: '%s' batch_size: 16 } }"
           " layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
           "   inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }"
           " layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' } }"
           " lr_policy: 'fixed' max_iter: 100 random_seed: 1 snapshot_after_train: false %s",
           source, fields);
  return millrace_session_open_text(text, "points.prototxt", NULL, session);
}

// Steps to the end; the loss of the last one.
static float Train(millrace_session* session) {
  millrace_step step = MILLRACE_STEP_INIT;
  int status = MILLRACE_OK;
  while ((status = millrace_session_step(session, &step)) == MILLRACE_OK) {
  }
  EXPECT(status == MILLRACE_END);
  return step.loss;
}

static void RegisterSources(void) {
  static int registered = 0;
  millrace_source_type type;
  if (registered) return;
  registered = 1;
  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_source(&type), "millrace_source_type: size is 0");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_source(&type), "name is NULL");
  type.name = LANGUAGE "_points";
  EXPECT_ERROR(millrace_register_source(&type), "open is NULL");
  type.user = &sources;
  type.open = OpenSource;
  EXPECT_ERROR(millrace_register_source(&type), "read is NULL");
  type.close = CloseSource;
  type.open_reader = OpenReader;
  type.close_reader = CloseReader;
  type.read = Read;
  EXPECT_OK(millrace_register_source(&type));
  memset(&type, 0, sizeof(type));
  type.size = sizeof(type);
  type.name = LANGUAGE "_bytes";
  type.open = OpenBytes;
  type.read = ReadBytes;
  EXPECT_OK(millrace_register_source(&type));
  EXPECT_ERROR(millrace_register_source(NULL), "millrace_source_type is NULL");
}

CAPI_TEST(DataSource) {
  millrace_session* session = NULL;

  RegisterSources();
  EXPECT_OK(OpenSolver(LANGUAGE "_points:all", "base_lr: 0.1", &session));
  EXPECT(Train(session) < 0.1);
  EXPECT(sources == 1 && readers > 0);
  millrace_session_close(session);
  EXPECT(sources == 0 && readers == 0);
  EXPECT_OK(OpenSolver(LANGUAGE "_bytes:all", "base_lr: 0.001", &session));
  EXPECT(Train(session) < 0.1);
  millrace_session_close(session);

  EXPECT_ERROR(OpenSolver(LANGUAGE "_points:none", "base_lr: 0.1", &session),
               "none: there is no such set of points");
  EXPECT_ERROR(OpenSolver(LANGUAGE "_points:empty", "base_lr: 0.1", &session), "no records");
  EXPECT(sources == 0 && readers == 0);
  bad_record = 40;
  if (OpenSolver(LANGUAGE "_points:all", "base_lr: 0.1", &session) == MILLRACE_OK) {
    millrace_session_step(session, NULL);
    millrace_session_step(session, NULL);
    EXPECT_ERROR(millrace_session_step(session, NULL), "record 40 is unreadable");
  }
  millrace_session_close(session);
  for (bad_record = 1; bad_record <= 3; ++bad_record) {
    static const char* const kParts[] = {"", "channels, height and width are 0", "floats or bytes",
                                         "expected at most"};
    EXPECT_ERROR(OpenSolver(LANGUAGE "_bytes:all", "base_lr: 0.1", &session), kParts[bad_record]);
    millrace_session_close(session);
  }
  bad_record = UINT64_MAX;
  (void)folder;
}

// SGD with momentum, written again.
typedef struct Rule {
  float momentum;
  int64_t last_update;
  int* refuse;
} Rule;

static int rules = 0, refuse_update = 0;

static int CreateRule(millrace_rule* rule, void* user, void** state) {
  double momentum = 0, number = 0;
  int is_set = 0;
  Rule* made = NULL;
  EXPECT_OK(millrace_rule_field(rule, "momentum", &momentum, &is_set));
  if (is_set) return millrace_fail("momentum is %g, expected the custom_param mass", momentum);
  EXPECT_OK(millrace_rule_field(rule, "iter_size", &number, NULL));
  EXPECT(number == 1);
  EXPECT_OK(millrace_rule_field(rule, "base_lr", &number, &is_set));
  EXPECT(is_set == 1 && number > 0);
  EXPECT_ERROR(millrace_rule_field(rule, "none", &number, NULL), "no single field");
  EXPECT_ERROR(millrace_rule_field(rule, "test_iter", &number, NULL), "no single field");
  EXPECT_ERROR(millrace_rule_field(rule, "lr_policy", &number, NULL), "is no number");
  EXPECT_ERROR(millrace_rule_field(rule, NULL, &number, NULL), "field is NULL");
  EXPECT_ERROR(millrace_rule_field(rule, "base_lr", NULL, NULL), "number is NULL");
  EXPECT_ERROR(millrace_rule_number(rule, "none", 0, &number), "not one of its parameters");
  EXPECT_ERROR(millrace_rule_number(rule, "mass", 0, NULL), "number is NULL");
  EXPECT_VALUE_ERROR(millrace_rule_text(rule, "none", ""), NULL, "not one of its parameters");
  EXPECT(strcmp(millrace_rule_text(rule, "note", "none"), "none") == 0);
  if (millrace_rule_number(rule, "mass", 0.9, &number) != MILLRACE_OK) return MILLRACE_ERROR;
  made = (Rule*)calloc(1, sizeof(Rule));
  made->momentum = (float)number;
  made->refuse = (int*)user;
  *state = made;
  ++rules;
  return MILLRACE_OK;
}
static void DestroyRule(void* state) {
  free(state);
  --rules;
}
static int Apply(void* state, const millrace_update* update) {
  Rule* const rule = (Rule*)state;
  size_t i = 0;
  if (*rule->refuse) return *rule->refuse == 1 ? millrace_fail("no update today") : MILLRACE_ERROR;
  EXPECT(update->size == sizeof(*update) && update->together == 0 && update->count > 0);
  EXPECT(update->updates == rule->last_update || update->updates == rule->last_update + 1);
  rule->last_update = update->updates;
  for (i = 0; i < update->count; ++i) {
    const float gradient =
        update->gradient_scale * update->gradients[i] + update->decay * update->weights[i];
    update->history[0][i] = rule->momentum * update->history[0][i] + update->rate * gradient;
    update->weights[i] -= update->history[0][i];
  }
  return MILLRACE_OK;
}

CAPI_TEST(UpdateRule) {
  static const char* const kKeys[] = {"mass", "note", NULL};
  millrace_rule_type type;
  millrace_session *own = NULL, *sgd = NULL;
  float *weights = NULL, *expected = NULL;
  size_t count = 0, i = 0;

  RegisterSources();
  memset(&type, 0, sizeof(type));
  EXPECT_ERROR(millrace_register_rule(&type), "millrace_rule_type: size is 0");
  EXPECT_ERROR(millrace_register_rule(NULL), "millrace_rule_type is NULL");
  type.size = sizeof(type);
  EXPECT_ERROR(millrace_register_rule(&type), "name is NULL");
  type.name = LANGUAGE "Momentum";
  EXPECT_ERROR(millrace_register_rule(&type), "apply is NULL");
  type.apply = Apply;
  type.slots = 17;
  EXPECT_ERROR(millrace_register_rule(&type), "slots is 17, expected 0 to 16");
  type.slots = 1;
  type.counts = 1;
  type.user = &refuse_update;
  type.parameters = kKeys;
  type.create = CreateRule;
  type.destroy = DestroyRule;
  EXPECT_OK(millrace_register_rule(&type));

  EXPECT_OK(OpenSolver(LANGUAGE "_points:all",
                       "type: 'SGD' base_lr: 0.01 momentum: 0.8"
                       " weight_decay: 0.1",
                       &sgd));
  EXPECT_OK(OpenSolver(LANGUAGE "_points:all",
                       "type: '" LANGUAGE "Momentum' base_lr: 0.01"
                       " weight_decay: 0.1 custom_param { key: 'mass' value: '0.8' }",
                       &own));
  EXPECT(rules == 1);
  Train(sgd);
  Train(own);
  EXPECT_OK(millrace_net_weights(millrace_session_net(own), &weights, NULL, &count));
  EXPECT_OK(millrace_net_weights(millrace_session_net(sgd), &expected, NULL, &count));
  for (i = 0; i < count; ++i) EXPECT(fabs(weights[i] - expected[i]) < 1e-4);
  EXPECT(weights[0] != 0);
  millrace_session_close(own);
  millrace_session_close(sgd);
  EXPECT(rules == 0);

  EXPECT_OK(OpenSolver(LANGUAGE "_points:all", "type: '" LANGUAGE "Momentum' base_lr: 0.01", &own));
  refuse_update = 1;
  EXPECT_ERROR(millrace_session_step(own, NULL), "no update today");
  refuse_update = 2;
  EXPECT_ERROR(millrace_session_step(own, NULL), "apply reported an error");
  refuse_update = 0;
  millrace_session_close(own);
  EXPECT_ERROR(OpenSolver(LANGUAGE "_points:all",
                          "type: '" LANGUAGE "Momentum' base_lr: 0.01 momentum: 0.5", &own),
               "momentum is 0.5, expected the custom_param mass");
  EXPECT_ERROR(OpenSolver(LANGUAGE "_points:all",
                          "type: '" LANGUAGE "Momentum' base_lr: 0.01"
                          " custom_param { key: 'mas' value: '1' }",
                          &own),
               "has no parameter mas");
  EXPECT_ERROR(millrace_rule_number(NULL, "x", 0, NULL), "number is NULL");
  EXPECT_VALUE_ERROR(millrace_rule_text(NULL, "x", ""), NULL, "rule is NULL");
  EXPECT_ERROR(millrace_rule_field(NULL, "x", NULL, NULL), "number is NULL");
  (void)folder;
}
