// Layers, data sources, update rules, samplers, conditions, merge rules and commands in C, as
// tables of functions that are registered by name. Net, solver and topology files then name them.
//
// A plugin is a shared library that defines millrace_plugin_init, which registers its tables:
//
//   int millrace_plugin_init(void) {
//     const millrace_layer_type type = {.size = sizeof type, .name = "Swish", ...};
//     if (MILLRACE_CHECK_ABI() != MILLRACE_OK) return MILLRACE_ERROR;
//     return millrace_register_layer(&type);
//   }
//
// `millrace train --plugins=swish.so` and millrace_load_plugin load it. A program may also register
// tables itself, before its first net, session or run. Everything is for the host.
//
// Register functions copy the table and the texts in it. Of two tables of one name the first stays;
// the second is an error when plugins are loaded and when a session or run starts. `user` is passed
// to the functions that create objects, until the process ends. Functions return MILLRACE_OK, or
// call millrace_fail and return MILLRACE_ERROR: the net or run then ends with that text. A text is
// one line. Functions may be NULL where that is said. Each object is used by one thread at a time,
// unless that is said.
#ifndef MILLRACE_PLUGIN_H_
#define MILLRACE_PLUGIN_H_

#include "millrace/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

// Defined by plugins. Called once, when the library has been loaded.
MILLRACE_API int millrace_plugin_init(void);

// ---- Layers (docs/guides/layer.md) ----

// A layer of a net, for the functions of its table.
typedef struct millrace_layer millrace_layer;

typedef struct millrace_layer_type {
  size_t size;
  const char* name;  // `type` in net files
  void* user;
  int min_bottom, max_bottom;     // the numbers of blobs that it reads; a maximum of -1: any
  int min_top, max_top;           // and writes
  const char* const* parameters;  // keys of custom_param; ends with NULL. NULL: none
  float loss_weight;              // of the first top, if the net file has none; a loss has 1
  uint64_t no_gradient;           // bit i: no gradient flows to bottom i (labels)
  int works_in_place;             // not 0: a top may be the bottom of the same number
  // Reads parameters, and declares arrays with millrace_layer_add_parameter. `*state` is passed to
  // the other functions. Shapes of bottoms are known. NULL: no state and no learnable arrays.
  int (*create)(millrace_layer* layer, void* user, void** state);
  // Once for each create that has returned MILLRACE_OK. NULL: nothing to do.
  void (*destroy)(void* state);
  // Sets the shape of each top with millrace_layer_set_shape. After create, and after every change
  // of a bottom's shape. NULL: top i has the shape of bottom i.
  int (*reshape)(millrace_layer* layer, void* state);
  // Writes the data of tops.
  int (*forward)(millrace_layer* layer, void* state);
  // Reads the diff of tops. Writes the diff of each bottom for which millrace_layer_propagates, and
  // adds to the diff of each parameter for which millrace_layer_learns. NULL: no gradient flows.
  int (*backward)(millrace_layer* layer, void* state);
} millrace_layer_type;

MILLRACE_API int millrace_register_layer(const millrace_layer_type* type);

// What the net file says of a layer. NULL after an error.
MILLRACE_API const char* millrace_layer_name(millrace_layer* layer);
// 1 in a net of phase TRAIN, else 0. MILLRACE_ERROR after an error.
MILLRACE_API int millrace_layer_is_training(millrace_layer* layer);
// The number in custom_param `key`, `otherwise` if the net file does not set it.
MILLRACE_API int millrace_layer_number(millrace_layer* layer, const char* key, double otherwise,
                                       double* number);
// The text there, which belongs to the layer. `otherwise` if it is not set, NULL after an error.
MILLRACE_API const char* millrace_layer_text(millrace_layer* layer, const char* key,
                                             const char* otherwise);

// Blobs and learnable arrays, from 0. Data are NULL in `create` and `reshape`. The diff is NULL but
// in `backward`, and of a bottom also where none is asked for. Addresses may change between calls.
// Counts are 0 after an error.
MILLRACE_API size_t millrace_layer_bottom_count(millrace_layer* layer);
MILLRACE_API int millrace_layer_bottom(millrace_layer* layer, size_t index, millrace_array* array);
MILLRACE_API size_t millrace_layer_top_count(millrace_layer* layer);
MILLRACE_API int millrace_layer_top(millrace_layer* layer, size_t index, millrace_array* array);
MILLRACE_API int millrace_layer_parameter(millrace_layer* layer, size_t index,
                                          millrace_array* array);
// For `reshape`.
MILLRACE_API int millrace_layer_set_shape(millrace_layer* layer, size_t top, const int64_t* shape,
                                          int axes);
// For `backward`: 1 or 0, MILLRACE_ERROR after an error.
MILLRACE_API int millrace_layer_propagates(millrace_layer* layer, size_t bottom);
MILLRACE_API int millrace_layer_learns(millrace_layer* layer, size_t parameter);

// Initial values of a learnable array, as Caffe's FillerParameter.
typedef struct millrace_filler {
  size_t size;
  const char* type;  // "constant", "uniform", "gaussian", "xavier", "msra", ...; NULL: "constant"
  float value;       // of constant
  float min, max;    // of uniform
  float mean, std;   // of gaussian
} millrace_filler;
#define MILLRACE_FILLER_INIT \
  { sizeof(millrace_filler), NULL, 0, 0, 1, 0, 1 }

// For `create`: declares a learnable array. `filler` may be NULL: zeros.
MILLRACE_API int millrace_layer_add_parameter(millrace_layer* layer, const int64_t* shape, int axes,
                                              const millrace_filler* filler);

// ---- Data sources (docs/guides/data_source.md) ----

// One record: an image of channels * height * width values, which are either floats or bytes.
typedef struct millrace_record {
  size_t size;
  const char* key;       // for messages; NULL: the record's number
  const float* floats;   // the values, or NULL
  const uint8_t* bytes;  // the values, or NULL
  int channels, height, width;
  int label;
} millrace_record;

typedef struct millrace_source_type {
  size_t size;
  const char* name;  // data_param { source: "NAME:PATH" }; lower-case letters, digits and '_'
  void* user;
  // Opens a sequence of records, whose number is constant and at least 1.
  int (*open)(void* user, const char* path, void** source, uint64_t* records);
  // NULL: nothing to do.
  void (*close)(void* source);
  // A reader for one thread, any number of which exist at the same time. `random_access`: 0 if the
  // numbers will come in ascending order with few restarts. NULL: `read` gets the source itself,
  // from several threads at the same time.
  int (*open_reader)(void* source, int random_access, void** reader);
  void (*close_reader)(void* reader);  // NULL: nothing to do
  // Record `index`, below the number of records. Its memory stays valid until the next read.
  int (*read)(void* reader, uint64_t index, millrace_record* record);
} millrace_source_type;

MILLRACE_API int millrace_register_source(const millrace_source_type* type);

// ---- Update rules (docs/guides/update_rule.md) ----

// A rule of one solver, for `create`.
typedef struct millrace_rule millrace_rule;

// A part of one parameter in one iteration. Arrays have `count` values.
typedef struct millrace_update {
  size_t size;
  size_t parameter;        // number of the parameter
  float rate;              // learning rate times lr_mult
  float decay;             // weight_decay times decay_mult
  float gradient_scale;    // factor of all gradients, of iter_size and clip_gradients
  int together;            // 1: others change these weights as well; gradients may be stale
  int64_t updates;         // with `counts`: 1 in the first iteration of the run; else 0
  const float* gradients;  // sums over iter_size batches
  float* weights;
  float* const* history;  // one array for each slot, initially 0
  size_t count;
} millrace_update;

typedef struct millrace_rule_type {
  size_t size;
  const char* name;  // `type` in solver files
  void* user;
  int slots;                      // numbers that it keeps per weight; snapshots save them
  int counts;                     // not 0: it depends on the number of updates
  const char* const* parameters;  // keys of custom_param; ends with NULL. NULL: none
  // Reads the settings and refuses those that it cannot use. Also called to check a solver file.
  // NULL: no state.
  int (*create)(millrace_rule* rule, void* user, void** state);
  void (*destroy)(void* state);  // NULL: nothing to do
  // Changes weights and history. Takes about a microsecond: other threads wait for these weights.
  int (*apply)(void* state, const millrace_update* update);
} millrace_rule_type;

MILLRACE_API int millrace_register_rule(const millrace_rule_type* type);

// The number in custom_param `key`, or the text there, which belongs to the rule; `otherwise` if
// the solver file does not set it.
MILLRACE_API int millrace_rule_number(millrace_rule* rule, const char* key, double otherwise,
                                      double* number);
MILLRACE_API const char* millrace_rule_text(millrace_rule* rule, const char* key,
                                            const char* otherwise);
// A numeric field of the solver file by its name: "momentum", "delta", "iter_size". Its default if
// the file does not set it; `is_set`, which may be NULL, tells this.
MILLRACE_API int millrace_rule_field(millrace_rule* rule, const char* field, double* number,
                                     int* is_set);

// ---- Parameters of the parts below ----

// A number that the file may set: param { key: NAME value: NUMBER }.
typedef struct millrace_parameter {
  size_t size;
  const char* name;  // lower-case letters, digits and '_'
  double otherwise;  // the default; not used if `required`
  double min, max;   // the range, inclusive; a part other than a merge rule may have INFINITY
  int whole;         // not 0: only whole numbers. Not for merge rules
  int required;      // not 0: the file has to set it. Not for merge rules
} millrace_parameter;

// The values of all parameters, in range, for functions that create.
typedef struct millrace_values millrace_values;
// NaN after an error.
MILLRACE_API double millrace_value(const millrace_values* values, const char* name);

// ---- Samplers (docs/guides/sampler.md) ----

typedef struct millrace_sampled_data {
  size_t size;
  uint64_t records;       // of the layer, at least 1
  uint64_t seed, stream;  // key of random choices; the same for all processes of a run
  const int32_t* labels;  // by record, if the sampler needs them, else NULL. Valid during create
} millrace_sampled_data;

typedef struct millrace_sampler_type {
  size_t size;
  const char* name;
  void* user;
  const millrace_parameter* const* parameters;  // ends with NULL. NULL: none
  int needs_labels;
  // NULL: no state.
  int (*create)(void* user, const millrace_values* values, const millrace_sampled_data* data,
                void** state);
  void (*destroy)(void* state);  // NULL: nothing to do
  // The record that has `number`, below `records`, in `epoch`: a function of its arguments and of
  // the data alone. A result of `records` or more counts modulo `records`. Several threads call it
  // at the same time; it cannot fail.
  uint64_t (*record)(const void* state, uint64_t records, uint64_t epoch, uint64_t number);
} millrace_sampler_type;

MILLRACE_API int millrace_register_sampler(const millrace_sampler_type* type);

// ---- Sync conditions (docs/guides/sync_condition.md) ----

typedef struct millrace_sync_state {
  size_t size;
  int64_t iterations;         // of this solver since the last merge, or since its start
  int64_t shared_iterations;  // of all solvers of the run since then
  double seconds;             // since then
  const float* weights;       // of the solver, `count` of them; NULL if `ignores_weights`
  const float* base;          // what they were after the last merge
  size_t count;
} millrace_sync_state;

typedef struct millrace_sync_type {
  size_t size;
  const char* name;
  void* user;
  const millrace_parameter* const* parameters;  // ends with NULL. NULL: none
  int ignores_weights;                          // not 0: it does not read the weights of the state
  int (*create)(void* user, const millrace_values* values, void** state);  // NULL: no state
  void (*destroy)(void* state);                                            // NULL: nothing to do
  // 1 if the solver has to merge now, else 0. Called after each iteration; cannot fail.
  int (*fires)(void* state, const millrace_sync_state* solver);
  // The solver is about to merge, whatever asked for it. NULL: nothing to do.
  void (*merging)(void* state, const millrace_sync_state* solver);
  // What the condition has learned, for snapshots: always `saved_numbers` finite numbers. NULL:
  // nothing is saved.
  size_t saved_numbers;
  void (*save)(const void* state, double* numbers);
  void (*restore)(void* state, const double* numbers);
} millrace_sync_type;

MILLRACE_API int millrace_register_sync(const millrace_sync_type* type);

// ---- Stop conditions (docs/learning.md) ----

typedef struct millrace_progress {
  size_t size;
  int64_t iterations;  // completed by all solvers of the run, also before a resume
  double seconds;      // since this process began to train
} millrace_progress;

typedef struct millrace_tested {
  size_t size;
  int64_t iteration;
  int net;                // index of the test net
  const double* outputs;  // their means, `count` of them, in the order of the log
  size_t count;
} millrace_tested;

typedef struct millrace_stop_type {
  size_t size;
  const char* name;
  void* user;
  const millrace_parameter* const* parameters;  // ends with NULL. NULL: none
  int needs_tests;  // not 0: a solver file without test nets cannot name it
  int (*create)(void* user, const millrace_values* values, void** state);  // NULL: no state
  void (*destroy)(void* state);                                            // NULL: nothing to do
  // After each iteration and each test: `*why` gets the reason if the run has to end. The text is
  // copied. Either may be NULL.
  int (*after_iteration)(void* state, const millrace_progress* progress, const char** why);
  int (*after_test)(void* state, const millrace_tested* test, const char** why);
} millrace_stop_type;

MILLRACE_API int millrace_register_stop(const millrace_stop_type* type);

// ---- Merge rules (docs/guides/merge_rule.md) ----

// The functions get a block of elements, work element by element and cannot fail.
typedef struct millrace_merge_type {
  size_t size;
  const char* name;
  void* user;
  const millrace_parameter* const* parameters;  // ends with NULL. NULL: none
  int state_floats;          // numbers that the master keeps per element, at most 4
  int zero_changes_nothing;  // not 0: apply with d = 0 changes nothing
  // Without new progress, exchanges end once |w - base| is at most this. NULL: 0.
  float (*rest_distance)(void* user, const millrace_values* values);
  int (*create)(void* user, const millrace_values* values, void** state);  // NULL: no state
  void (*destroy)(void* state);                                            // NULL: nothing to do
  // Worker: selected[i], the part of its progress u[i] to send.
  void (*select)(const void* state, const float* u, float* selected, size_t count);
  // Worker: rest[i], what stays of u[i] when d[i] is sent.
  void (*residual)(const void* state, const float* u, const float* d, float* rest, size_t count);
  // Master: applies d to w. Number k of element i is numbers[k * count + i]. `staleness`: positions
  // that the master has sent since the one that the diff was computed from.
  void (*apply)(const void* state, float* w, const float* d, float* numbers, size_t count,
                uint32_t staleness);
} millrace_merge_type;

MILLRACE_API int millrace_register_merge(const millrace_merge_type* type);

// ---- Commands of control services (docs/guides/control_command.md) ----

// A call of a command, until its function returns.
typedef struct millrace_call millrace_call;

typedef struct millrace_command_type {
  size_t size;
  const char* name;  // 1 to 64 letters, digits, '-', '_', '.'
  const char* help;  // a sentence
  void* user;
  // Called by a thread of the service, one call at a time. `arguments` is JSON of any type. The
  // result is what the last millrace_call_return got; without one it is null.
  int (*run)(millrace_call* call, void* user, const char* arguments);
} millrace_command_type;

MILLRACE_API int millrace_register_command(const millrace_command_type* type);

// JSON of any type, which is copied.
MILLRACE_API int millrace_call_return(millrace_call* call, const char* json);
// The run of the service, until the function returns: for functions that read its status and
// control it, not for millrace_run_wait, _wait_for and _close. NULL after an error.
MILLRACE_API millrace_run* millrace_call_run(millrace_call* call);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_PLUGIN_H_
