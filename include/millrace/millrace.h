// The C API (C99, and C++): nets, training sessions, runs in the background, and streams of a
// program's own weights between machines. millrace/plugin.h is its second half: layers, data
// sources, update rules and the like as tables of functions.
//
//   millrace_session* session = NULL;
//   millrace_step step = MILLRACE_STEP_INIT;
//   if (millrace_session_open("solver.prototxt", NULL, &session) != MILLRACE_OK) {
//     fprintf(stderr, "%s\n", millrace_last_error());
//     return 1;
//   }
//   while (millrace_session_step(session, &step) == MILLRACE_OK) printf("%g\n", step.loss);
//   millrace_session_close(session);
//
// Errors. A function that returns `int` returns MILLRACE_OK or, where that is said, MILLRACE_END;
// after an error MILLRACE_ERROR. millrace_last_error then has one line that names the function or
// the file and field, and what was expected. Results of a failed call are unchanged, unless that
// is said. Functions that return a pointer or a number say what they return after an error. NULL
// for a handle, a result or a required argument is an error. No C++ exception leaves a function.
//
// Handles. An object that an open or start function gives belongs to the caller, who closes it; the
// close functions accept NULL. Texts that belong to a handle are valid until it is closed. One
// thread at a time uses a handle, unless it is a run; different threads may use different handles.
//
// Structs begin with `size`, which the INIT macros set together with the defaults. A program may
// therefore run with a library whose structs have more fields: these keep their defaults. A
// function refuses a struct with another `size` than some version had, or with fields that are set
// and that the library does not know.
//
// Callbacks return MILLRACE_OK, or call millrace_fail and return MILLRACE_ERROR. They do not throw.
#ifndef MILLRACE_MILLRACE_H_
#define MILLRACE_MILLRACE_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MILLRACE_OK = 0, MILLRACE_END = 1, MILLRACE_ERROR = -1 };

// ---- Versions, errors, log, memory ----

// Number of this interface. It grows with each function or field that is added; a library serves
// programs of all lower numbers that have its soname.
#define MILLRACE_ABI_VERSION 6
// That of the library.
MILLRACE_API int millrace_abi_version(void);
// An error unless the library serves programs that were compiled with interface `version`:
// MILLRACE_CHECK_ABI() asks for this header.
MILLRACE_API int millrace_check_abi(int version);
#define MILLRACE_CHECK_ABI() millrace_check_abi(MILLRACE_ABI_VERSION)
// "0.9.0": the version of the library. Constant.
MILLRACE_API const char* millrace_version(void);

// The text of the last error of this thread; "" before the first. Valid until this thread calls the
// library again: calls without an error keep or clear it.
MILLRACE_API const char* millrace_last_error(void);

#if defined(__GNUC__)
#define MILLRACE_PRINTF __attribute__((format(printf, 1, 2)))
#else
#define MILLRACE_PRINTF
#endif
// For callbacks: makes a text as printf does, the error of this thread, and returns MILLRACE_ERROR.
// The library stores at most 1,000 bytes, of one line.
MILLRACE_API int millrace_fail(const char* format, ...) MILLRACE_PRINTF;

// Lines below `level` are not logged, by any thread: 0 information (default), 1 warnings, 2
// errors. The log goes to stderr.
MILLRACE_API int millrace_set_log_level(int level);

// `count` floats, zeros, at an address that is a multiple of 64, as streams need it. NULL after an
// error. millrace_floats_free accepts NULL.
MILLRACE_API float* millrace_floats_alloc(size_t count);
MILLRACE_API void millrace_floats_free(float* floats);

// ---- Arrays ----

#define MILLRACE_MAX_AXES 32

// A blob or parameter: `count` float32 values, row-major, with `axes` lengths in `shape`.
typedef struct millrace_array {
  size_t size;
  const char* name;  // belongs to the handle that gave the array
  float* data;       // belongs to that handle, too; valid until it is closed or reshaped
  float* diff;       // gradients, laid out like `data`; NULL where there are none
  int64_t count;
  int axes;
  int64_t shape[MILLRACE_MAX_AXES];
} millrace_array;
#define MILLRACE_ARRAY_INIT                               \
  {                                                       \
    sizeof(millrace_array), NULL, NULL, NULL, 0, 0, { 0 } \
  }

// ---- Nets ----

typedef struct millrace_net millrace_net;

typedef struct millrace_net_options {
  size_t size;
  int train;                  // the phase: 0 TEST, else TRAIN
  int level;                  // of the net state
  const char* const* stages;  // of the net state; ends with NULL. NULL: none
  uint64_t seed;              // of fillers, dropout masks and the like; 0: 1
} millrace_net_options;
#define MILLRACE_NET_OPTIONS_INIT \
  { sizeof(millrace_net_options), 0, 0, NULL, 0 }

// Reads a net file, or the text of one, for which `name` stands in messages. The weights are those
// of its fillers. `options` may be NULL. The net computes on the host, on the calling thread.
MILLRACE_API int millrace_net_open(const char* net_file, const millrace_net_options* options,
                                   millrace_net** net);
MILLRACE_API int millrace_net_open_text(const char* text, const char* name,
                                        const millrace_net_options* options, millrace_net** net);
MILLRACE_API void millrace_net_close(millrace_net* net);
// NULL after an error.
MILLRACE_API const char* millrace_net_name(millrace_net* net);

// Copies weights from a .caffemodel by layer name; `layers`, which may be NULL, gets the number of
// layers that have the name of one in the file. An error if there is none, or if shapes differ: the
// weights are then undefined.
MILLRACE_API int millrace_net_load(millrace_net* net, const char* model_file, int* layers);
// Writes a .caffemodel, in HDF5 if the name ends in .h5.
MILLRACE_API int millrace_net_save(millrace_net* net, const char* model_file);
// `net` uses the weights of `other`, which is closed after it, in layers that have the name of one
// there.
MILLRACE_API int millrace_net_share_weights(millrace_net* net, millrace_net* other);

// All blobs, the tops of Input layers, and the blobs that no layer reads. Counts are 0 and names
// NULL after an error; indices begin with 0.
MILLRACE_API size_t millrace_net_blob_count(millrace_net* net);
MILLRACE_API const char* millrace_net_blob_name(millrace_net* net, size_t index);
MILLRACE_API size_t millrace_net_input_count(millrace_net* net);
MILLRACE_API const char* millrace_net_input_name(millrace_net* net, size_t index);
MILLRACE_API size_t millrace_net_output_count(millrace_net* net);
MILLRACE_API const char* millrace_net_output_name(millrace_net* net, size_t index);
// The values and gradients with which the net computes; write the data of inputs, and read those of
// others after a pass. Of a session's nets, an error unless the session has live_blobs.
MILLRACE_API int millrace_net_blob(millrace_net* net, const char* name, millrace_array* blob);
// Gives a blob, usually an input, another shape; its values are then undefined. The shapes of all
// others follow with the next pass or millrace_net_reshape.
MILLRACE_API int millrace_net_reshape_blob(millrace_net* net, const char* name,
                                           const int64_t* shape, int axes);
MILLRACE_API int millrace_net_reshape(millrace_net* net);
// Gives a MemoryData layer its next examples, which are copied: `label_count` of them, a multiple
// of its batch size, and as many values as they have together.
MILLRACE_API int millrace_net_set_memory_data(millrace_net* net, const char* layer,
                                              const float* values, size_t value_count,
                                              const float* labels, size_t label_count);

// The learnable arrays, by layer; the name is "LAYER/NUMBER", 0 for weights, 1 for a bias.
MILLRACE_API size_t millrace_net_parameter_count(millrace_net* net);
MILLRACE_API int millrace_net_parameter(millrace_net* net, size_t index, millrace_array* array);
// All weights, and their gradients in the same order: arrays with zeros between them. The addresses
// are constant. Any result may be NULL. Test nets of a session have none.
MILLRACE_API int millrace_net_weights(millrace_net* net, float** weights, const float** gradients,
                                      size_t* count);

// A whole pass. `loss`, which may be NULL: the sum of tops times their loss weights.
// millrace_net_backward sets all gradients.
MILLRACE_API int millrace_net_forward(millrace_net* net, float* loss);
MILLRACE_API int millrace_net_backward(millrace_net* net);
// Layers in the order of computation; NULL after an error.
MILLRACE_API size_t millrace_net_layer_count(millrace_net* net);
MILLRACE_API const char* millrace_net_layer_name(millrace_net* net, size_t index);
MILLRACE_API const char* millrace_net_layer_type(millrace_net* net, size_t index);
// Passes of layers `first` to `last`, or `last` down to `first`, both included.
// millrace_net_backward_layers adds to the gradients of weights.
MILLRACE_API int millrace_net_forward_layers(millrace_net* net, size_t first, size_t last,
                                             float* loss);
MILLRACE_API int millrace_net_backward_layers(millrace_net* net, size_t last, size_t first);
// Sets the gradients of weights to 0.
MILLRACE_API int millrace_net_clear_gradients(millrace_net* net);

// ---- Sessions: solvers that the program steps ----

typedef struct millrace_session millrace_session;

typedef struct millrace_session_options {
  size_t size;
  const char* const* weights;  // .caffemodel files to start from; ends with NULL. NULL: none
  const char* snapshot;        // .solverstate to continue; excludes `weights`. NULL: none
  const char* topology;        // a topology file; NULL: no cluster
  const char* node;            // this node's name there; NULL: chosen by rank
  double join_seconds;         // longest wait for the weights of the cluster's run; 0: 60
  uint64_t shard_index;        // shard i of n of the training records;
  uint64_t shard_count;        // 0: the topology's shard, or all records
  int live_blobs;              // not 0: millrace_net_blob works on its nets, which takes time
  int past_max_iter;           // not 0: steps go on after max_iter. Not in a cluster
  int metrics;                 // not 0: the session's metrics are among those of the process
  // Nodes join and leave by a registry, "etcd://HOST:PORT/RUN" (docs/operations.md). `topology`
  // then names segments only, or is NULL, and `node` is NULL. NULL: the topology names the nodes.
  const char* rendezvous;
  const char* nodes;  // "MIN:MAX" nodes of that run
  int solvers;        // on processors, that learn together; 0: 1, or none if there are GPUs
  // "0,2" or "all": a solver on each of these GPUs, whose progress streams into the weights of
  // millrace_session_net (millrace/session.h). NULL: none.
  const char* gpus;
  const char* precision;  // of GPUs: "auto", "fp32", "tf32" or "bf16"; NULL: "auto"
} millrace_session_options;
#define MILLRACE_SESSION_OPTIONS_INIT                                                          \
  {                                                                                            \
    sizeof(millrace_session_options), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, \
        NULL, NULL                                                                             \
  }

// Reads a solver file and its nets, or the text of one, for which `name` stands in messages and as
// the prefix of snapshots. In a cluster, blocks until this node has the run's weights. `options`
// may be NULL.
MILLRACE_API int millrace_session_open(const char* solver_file,
                                       const millrace_session_options* options,
                                       millrace_session** session);
MILLRACE_API int millrace_session_open_text(const char* text, const char* name,
                                            const millrace_session_options* options,
                                            millrace_session** session);
// In a cluster, call millrace_session_finish or millrace_session_leave before.
MILLRACE_API void millrace_session_close(millrace_session* session);

typedef struct millrace_step {
  size_t size;
  int64_t iteration;    // its number, from 0, over all nodes of a cluster
  float loss;           // before the update
  float learning_rate;  // of the update
} millrace_step;
#define MILLRACE_STEP_INIT \
  { sizeof(millrace_step), 0, 0, 0 }

// Computes one iteration and applies its update. `step` may be NULL. MILLRACE_END, and nothing is
// computed, once all nodes together have begun max_iter iterations or a stop condition is met.
MILLRACE_API int millrace_session_step(millrace_session* session, millrace_step* step);
// Iterations completed, by all nodes; -1 after an error.
MILLRACE_API int64_t millrace_session_iteration(millrace_session* session);
// The learning rate of the next iteration.
MILLRACE_API int millrace_session_learning_rate(millrace_session* session, float* rate);
// Steps call `call` when the gradients are there, before the update; its error ends the step. NULL:
// none.
MILLRACE_API int millrace_session_on_gradients(millrace_session* session, int (*call)(void* user),
                                               void* user);
// Updates the weights from the gradients that the train net holds. Not in a cluster.
MILLRACE_API int millrace_session_apply_update(millrace_session* session);

// The train net and the test nets. They belong to the session; do not close them. NULL after an
// error.
MILLRACE_API millrace_net* millrace_session_net(millrace_session* session);
MILLRACE_API size_t millrace_session_test_net_count(millrace_session* session);
MILLRACE_API millrace_net* millrace_session_test_net(millrace_session* session, size_t index);
// millrace_net_set_memory_data for the train net.
MILLRACE_API int millrace_session_set_memory_data(millrace_session* session, const char* layer,
                                                  const float* values, size_t value_count,
                                                  const float* labels, size_t label_count);

// A value that a test net has reported, averaged over its batches.
typedef struct millrace_test_output {
  size_t size;
  const char* name;  // of the blob; several values of one blob have the same. Belongs to the handle
  double mean;
  int64_t iteration;  // of the test
} millrace_test_output;
#define MILLRACE_TEST_OUTPUT_INIT \
  { sizeof(millrace_test_output), NULL, 0, 0 }

// Runs test net `net` for its test_iter batches. `outputs`, which may be NULL, gets the number of
// its values, which millrace_session_test_output gives one by one until the next test.
MILLRACE_API int millrace_session_test(millrace_session* session, size_t net, size_t* outputs);
MILLRACE_API int millrace_session_test_output(millrace_session* session, size_t index,
                                              millrace_test_output* output);

// Writes PREFIX_iter_N.caffemodel and .solverstate; `path`, which may be NULL, gets the name of the
// latter, which belongs to the session.
MILLRACE_API int millrace_session_snapshot(millrace_session* session, const char** path);
// Goes on from a .solverstate. Not in a cluster.
MILLRACE_API int millrace_session_restore(millrace_session* session, const char* snapshot);

// Whether this node tests and saves for all: 1 or 0. MILLRACE_ERROR after an error.
MILLRACE_API int millrace_session_is_leader(millrace_session* session);
// Waits until all nodes have ended and have the same weights, then leaves; or leaves at once, after
// it has sent its progress, and the others go on.
MILLRACE_API int millrace_session_finish(millrace_session* session);
MILLRACE_API int millrace_session_leave(millrace_session* session);

// ---- Runs: `millrace train` in a thread. All functions but close are thread-safe ----

typedef struct millrace_run millrace_run;

// For millrace_run_options.cpus: no solver on processors, only on GPUs.
#define MILLRACE_NO_CPUS (-1)

typedef struct millrace_run_options {
  size_t size;
  const char* solver_file;
  int cpus;  // solver threads on processors; 0: with GPUs none, else the topology's value or 1
  const char* gpus;            // "0,2" or "all"; NULL: those of the solver file
  const char* const* weights;  // .caffemodel files to start from; ends with NULL. NULL: none
  const char* snapshot;        // .solverstate to continue; excludes `weights`. NULL: none
  const char* metrics_file;    // gets rows in JSON; NULL: none
  const char* topology;        // a topology file; NULL: no cluster
  const char* node;            // this node's name there; NULL: chosen by rank
  int metrics;                 // not 0: the run's metrics are among those of the process
  const char* rendezvous;      // as in millrace_session_options
  const char* nodes;
  const char* precision;  // of GPUs: "auto", "fp32", "tf32" or "bf16"; NULL: "auto"
} millrace_run_options;
#define MILLRACE_RUN_OPTIONS_INIT \
  { sizeof(millrace_run_options), NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL }

// Starts a run. Mistakes in files are errors of millrace_run_wait.
MILLRACE_API int millrace_run_start(const millrace_run_options* options, millrace_run** run);
// Stops the run and waits for its end.
MILLRACE_API void millrace_run_close(millrace_run* run);

enum {
  MILLRACE_RUN_STARTING = 0,  // reads files, fills weights, joins the cluster
  MILLRACE_RUN_TRAINING = 1,
  MILLRACE_RUN_PAUSED = 2,
  MILLRACE_RUN_STOPPING = 3,  // is to end; saves and tests
  MILLRACE_RUN_ENDED = 4
};

typedef struct millrace_run_status {
  size_t size;
  int state;
  int64_t iteration;             // completed, by all nodes
  int64_t max_iteration;         // 0: not known yet
  double loss;                   // smoothed
  double learning_rate;          // of the last iteration
  double seconds;                // since training began
  double iterations_per_second;  // over the last 10 s; -1: not known yet
  double images_per_iteration;   // of one solver
  int64_t snapshot_iteration;    // of the last snapshot; -1: none
  const char* snapshot;          // its .solverstate; "": none. Belongs to the run
  const char* node;              // this node's name, and that of its cluster; "": none, or not
  const char* cluster;           // known yet. They belong to the run
} millrace_run_status;
#define MILLRACE_RUN_STATUS_INIT \
  { sizeof(millrace_run_status), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL }

MILLRACE_API int millrace_run_get_status(millrace_run* run, millrace_run_status* status);
// Value `index` of the last test of test net `net`. MILLRACE_END if that has no such value, or has
// not been tested.
MILLRACE_API int millrace_run_test_output(millrace_run* run, size_t net, size_t index,
                                          millrace_test_output* output);

// These return at once; the solvers notice between two iterations. Snapshots and tests are made
// during a pause, too.
MILLRACE_API int millrace_run_pause(millrace_run* run);
MILLRACE_API int millrace_run_resume(millrace_run* run);
MILLRACE_API int millrace_run_snapshot(millrace_run* run);
MILLRACE_API int millrace_run_test(millrace_run* run);
// Replaces the learning rate of the solver file; 0: the file's again.
MILLRACE_API int millrace_run_set_learning_rate(millrace_run* run, float rate);
// The run is saved, and ends.
MILLRACE_API int millrace_run_stop(millrace_run* run);

typedef struct millrace_run_result {
  size_t size;
  int64_t iteration;
  int stopped_early;  // by millrace_run_stop or a stop condition
  float loss;         // smoothed
  const char* model;  // files of the final snapshot; "": none. They belong to the run
  const char* state;
} millrace_run_result;
#define MILLRACE_RUN_RESULT_INIT \
  { sizeof(millrace_run_result), 0, 0, 0, NULL, NULL }

// MILLRACE_OK if the run has ended within so many seconds, else MILLRACE_END.
MILLRACE_API int millrace_run_wait_for(millrace_run* run, double seconds);
// Waits for the end. The error that ended the run is an error of each call. `result` may be NULL.
MILLRACE_API int millrace_run_wait(millrace_run* run, millrace_run_result* result);

// ---- The control service of a run (millrace/control.h, docs/control.md) ----

typedef struct millrace_control millrace_control;

typedef struct millrace_control_options {
  size_t size;
  const char* address;      // "host:port"; port 0: chosen by the system. NULL: see control.h
  const char* topology;     // of the run, if it is one of a cluster; NULL: none
  const char* node;         // this node's name there; NULL: none
  const char* key_file;     // the cluster's secret; NULL: the topology's, or one of the run's own
  const char* certificate;  // PEM files, for TLS; NULL: none
  const char* private_key;
  const char* authorities;  // NULL: the system's
  const char* solver;       // path of the solver file, for the status; NULL: none
  // In place of `topology` and `node`, for a run whose nodes join by a registry, and a user of that
  // with a file that holds the password. The other nodes find this service if the URL that the run
  // gets ends in "?control=HOST:PORT". NULL: none.
  const char* rendezvous;
  const char* rendezvous_user;
  const char* rendezvous_password_file;
} millrace_control_options;
#define MILLRACE_CONTROL_OPTIONS_INIT                                                             \
  {                                                                                               \
    sizeof(millrace_control_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL                                                                                      \
  }

// Serves from now on, with threads of its own. `options` may be NULL. Close it before the run.
MILLRACE_API int millrace_control_open(const millrace_control_options* options, millrace_run* run,
                                       millrace_control** control);
MILLRACE_API void millrace_control_close(millrace_control* control);
// Where it listens: "http://127.0.0.1:8400". Valid until it is closed. NULL after an error.
MILLRACE_API const char* millrace_control_url(millrace_control* control);

// ---- Streams: a program's own weights, which a cluster exchanges ----

typedef struct millrace_stream millrace_stream;

typedef struct millrace_stream_options {
  size_t size;
  const char* topology;    // a topology file; NULL: with `rendezvous` only
  const char* node;        // this node's name there; NULL: chosen by rank
  uint64_t layout;         // nodes whose arrays have another layout have another number
  int64_t iteration;       // iterations that the weights have seen, if they start the run
  int metrics;             // not 0: the metrics of its segments are among those of the process
  const char* rendezvous;  // as in millrace_session_options
  const char* nodes;
  // How the program multiplies its learning rate by millrace_stream_rate_factor: "linear" for steps
  // that grow with the gradient (SGD), "root" for those that are divided by its magnitude (Adam);
  // NULL or "none": it does not. The same on all nodes.
  const char* scaling;
  // Iterations of all nodes during which the factor rises from 1; at least 100 for each unit of it.
  int64_t warmup;
} millrace_stream_options;
#define MILLRACE_STREAM_OPTIONS_INIT \
  { sizeof(millrace_stream_options), NULL, NULL, 0, 0, 0, NULL, NULL, NULL, 0 }

// Starts the segments of the node on `count` floats at an address that is a multiple of 64. They
// outlive the stream, whose threads write them from now on; the program reads them at any time, and
// writes them by the functions below.
MILLRACE_API int millrace_stream_open(const millrace_stream_options* options, float* weights,
                                      size_t count, millrace_stream** stream);
// Call millrace_stream_finish or millrace_stream_leave before: without them the others lose this
// node's last progress.
MILLRACE_API void millrace_stream_close(millrace_stream* stream);
// Blocks until this node has the run's weights: its own if it starts the run, else the others'. An
// error after `seconds`.
MILLRACE_API int millrace_stream_join(millrace_stream* stream, double seconds);
// Adds `delta`, as many values as there are weights. Counts one iteration. A value that is not
// finite is an error; the other nodes learn of it.
MILLRACE_API int millrace_stream_add(millrace_stream* stream, const float* delta, size_t count);
// Calls `update` for consecutive parts of the weights, `count` of them from weight `offset` on,
// which other threads do not write meanwhile. Counts one iteration, unless `update` has an error,
// after which no further part is updated; the parts before keep their updates.
MILLRACE_API int millrace_stream_update(millrace_stream* stream,
                                        int (*update)(void* user, size_t offset, float* part,
                                                      size_t count),
                                        void* user);
// Iterations of all nodes; any thread. -1 after an error.
MILLRACE_API int64_t millrace_stream_iterations(millrace_stream* stream);
// Factor of the learning rate of the next iteration, at least 1, if three to 16 nodes average their
// progress (docs/learning.md#merge-rules). -1 after an error.
MILLRACE_API float millrace_stream_rate_factor(millrace_stream* stream);
// Nodes of the first segment that are in sync, this one included. MILLRACE_ERROR after an error.
MILLRACE_API int millrace_stream_nodes(millrace_stream* stream);
// Whether this node tests and saves for all: 1 or 0. MILLRACE_ERROR after an error.
MILLRACE_API int millrace_stream_is_leader(millrace_stream* stream);
// Copies the weights that all nodes agree on, without this node's unsent progress.
MILLRACE_API int millrace_stream_read_merged(millrace_stream* stream, float* to, size_t count);
// As millrace_session_finish and millrace_session_leave.
MILLRACE_API int millrace_stream_finish(millrace_stream* stream);
MILLRACE_API int millrace_stream_leave(millrace_stream* stream);
// Tells the other nodes that this one has failed, and why. `not_finite`: not 0 if its progress may
// have spoilt the weights, so that they end their run. Close the stream afterwards.
MILLRACE_API int millrace_stream_fail(millrace_stream* stream, const char* why, int not_finite);

// ---- Metrics (docs/operations.md) ----

// A reading of all metrics of a process at one moment.
typedef struct millrace_metrics millrace_metrics;

typedef struct millrace_metric {
  size_t size;
  const char* name;    // the texts belong to the reading
  const char* labels;  // segment="lan",type="diff"; "" without labels
  const char* help;
  const char* unit;  // "seconds", "bytes"; "" for other numbers
  int is_counter;    // 1: it never decreases
  double value;
} millrace_metric;
#define MILLRACE_METRIC_INIT \
  { sizeof(millrace_metric), NULL, NULL, NULL, NULL, 0, 0 }

// Reads the metrics of this process: of plugins, and of sessions, runs and streams that have
// `metrics` set.
MILLRACE_API int millrace_metrics_read(millrace_metrics** metrics);
MILLRACE_API void millrace_metrics_close(millrace_metrics* metrics);
// 0 after an error.
MILLRACE_API size_t millrace_metrics_count(millrace_metrics* metrics);
MILLRACE_API int millrace_metrics_get(millrace_metrics* metrics, size_t index,
                                      millrace_metric* metric);

// ---- Plugins ----

// Loads a shared library with layers and the like, in C (millrace/plugin.h) or C++, as --plugins of
// the program does. It stays until the process ends.
MILLRACE_API int millrace_load_plugin(const char* path);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_MILLRACE_H_
