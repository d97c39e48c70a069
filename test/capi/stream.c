// Streams: two nodes in one process, each with weights of its own.
#include <math.h>

#include "test/capi/check.h"

enum { kWeights = 10000 };

// Adds *user to each weight.
static int AddAmount(void* user, size_t offset, float* part, size_t count) {
  size_t i = 0;
  EXPECT(offset + count <= kWeights);
  for (i = 0; i < count; ++i) part[i] += *(const float*)user;
  return MILLRACE_OK;
}
static int RefusePart(void* user, size_t offset, float* part, size_t count) {
  (void)user, (void)part, (void)count;
  return offset == 0 ? millrace_fail("no update of part %d", (int)offset) : MILLRACE_OK;
}

static millrace_stream* Open(const char* topology, const char* node, float* weights) {
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream* stream = NULL;
  options.topology = topology;
  options.node = node;
  options.layout = 7;
  EXPECT_OK(millrace_stream_open(&options, weights, kWeights, &stream));
  return stream;
}

CAPI_TEST(Stream) {
  const char* const topology = CapiPath(folder, LANGUAGE "_topology.prototxt");
  float *a_weights = millrace_floats_alloc(kWeights), *b_weights = millrace_floats_alloc(kWeights);
  float *delta = millrace_floats_alloc(kWeights), *merged = millrace_floats_alloc(kWeights);
  millrace_stream *a = Open(topology, "a", a_weights), *b = Open(topology, "b", b_weights);
  float amount = 2;
  int i = 0;

  EXPECT_ERROR(millrace_stream_add(a, delta, kWeights), "has not joined");
  EXPECT_OK(millrace_stream_join(a, 120));
  EXPECT_OK(millrace_stream_join(b, 120));
  while (millrace_stream_nodes(a) < 2) EXPECT_OK(millrace_stream_update(a, AddAmount, &amount));
  for (i = 0; i < kWeights; ++i) delta[i] = 1;
  EXPECT_OK(millrace_stream_add(b, delta, kWeights));
  EXPECT_OK(millrace_stream_update(b, AddAmount, &amount));
  EXPECT_ERROR(millrace_stream_update(b, RefusePart, NULL), "no update of part 0");
  EXPECT(millrace_stream_is_leader(a) + millrace_stream_is_leader(b) == 1);
  // b's progress reaches a.
  EXPECT_OK(millrace_stream_leave(b));
  while (millrace_stream_nodes(a) == 2) EXPECT_OK(millrace_stream_read_merged(a, merged, kWeights));
  EXPECT(millrace_stream_iterations(a) >= 2);
  EXPECT_OK(millrace_stream_finish(a));
  for (i = 0; i < kWeights; ++i) EXPECT(a_weights[i] >= 3);
  // In another order than is possible.
  EXPECT_ERROR(millrace_stream_finish(a), "has left");
  EXPECT_ERROR(millrace_stream_join(a, 1), "has left");
  millrace_stream_close(a);
  millrace_stream_close(b);
  millrace_floats_free(a_weights);
  millrace_floats_free(b_weights);
  millrace_floats_free(delta);
  millrace_floats_free(merged);
}

// A struct of ABI 2, which ends before `rendezvous`; what lies behind it says nothing.
CAPI_TEST(StreamOfAnOlderProgram) {
  float* const weights = millrace_floats_alloc(kWeights);
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream* stream = NULL;
  options.topology = CapiPath(folder, LANGUAGE "_alone.prototxt");
  options.node = "a";
  options.rendezvous = "none";
  options.size = offsetof(millrace_stream_options, rendezvous);
  EXPECT_OK(millrace_stream_open(&options, weights, kWeights, &stream));
  millrace_stream_close(stream);
  options.size -= sizeof(void*);
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "size is ");
  millrace_floats_free(weights);
}

CAPI_TEST(StreamMistakes) {
  const char* const topology = CapiPath(folder, LANGUAGE "_alone.prototxt");
  float* const weights = millrace_floats_alloc(kWeights);
  float* const other = millrace_floats_alloc(kWeights);
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream* stream = NULL;
  float amount = 1;

  EXPECT_ERROR(millrace_stream_open(NULL, weights, 1, &stream), "millrace_stream_options is NULL");
  EXPECT_ERROR(millrace_stream_open(&options, weights, 1, &stream), "topology is NULL");
  options.topology = CapiPath(folder, "none.prototxt");
  options.node = "a";
  EXPECT_ERROR(millrace_stream_open(&options, weights, 1, NULL), "stream is NULL");
  EXPECT_ERROR(millrace_stream_open(&options, NULL, 1, &stream), "weights is NULL");
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "none.prototxt");
  options.topology = topology;
  EXPECT_ERROR(millrace_stream_open(&options, weights, 0, &stream), "at least one weight");
  EXPECT_ERROR(millrace_stream_open(&options, weights + 1, 1, &stream), "a multiple of 64");
  options.node = "nobody";
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "nobody");
  options.node = "a";
  options.scaling = "square";
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "\"square\" given");
  options.scaling = "linear";
  options.warmup = -1;
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "-1 given");
  options.size = 2;
  EXPECT_ERROR(millrace_stream_open(&options, weights, kWeights, &stream), "size is 2");
  EXPECT(stream == NULL);

  EXPECT_ERROR(millrace_stream_join(NULL, 1), "stream is NULL");
  EXPECT_ERROR(millrace_stream_add(NULL, weights, 1), "stream is NULL");
  EXPECT_ERROR(millrace_stream_update(NULL, AddAmount, &amount), "stream is NULL");
  EXPECT_VALUE_ERROR(millrace_stream_iterations(NULL), -1, "stream is NULL");
  EXPECT_VALUE_ERROR(millrace_stream_rate_factor(NULL), -1, "stream is NULL");
  EXPECT_ERROR(millrace_stream_nodes(NULL), "stream is NULL");
  EXPECT_ERROR(millrace_stream_is_leader(NULL), "stream is NULL");
  EXPECT_ERROR(millrace_stream_read_merged(NULL, other, 1), "stream is NULL");
  EXPECT_ERROR(millrace_stream_finish(NULL), "stream is NULL");
  EXPECT_ERROR(millrace_stream_leave(NULL), "stream is NULL");
  EXPECT_ERROR(millrace_stream_fail(NULL, "why", 0), "stream is NULL");

  stream = Open(topology, "a", weights);
  EXPECT_ERROR(millrace_stream_join(stream, -1), "seconds is -1");
  EXPECT_ERROR(millrace_stream_update(stream, NULL, NULL), "update is NULL");
  EXPECT_OK(millrace_stream_join(stream, 120));
  EXPECT_ERROR(millrace_stream_add(stream, NULL, kWeights), "delta is NULL");
  EXPECT_ERROR(millrace_stream_add(stream, other, 3), "3 values for 10000 weights");
  EXPECT_ERROR(millrace_stream_read_merged(stream, NULL, kWeights), "to is NULL");
  EXPECT_ERROR(millrace_stream_read_merged(stream, other, 3), "count is 3, expected 10000");
  EXPECT_ERROR(millrace_stream_fail(stream, NULL, 0), "why is NULL");
  EXPECT_OK(millrace_stream_add(stream, other, kWeights));
  EXPECT(millrace_stream_iterations(stream) == 1);
  EXPECT(millrace_stream_rate_factor(stream) == 1);
  other[17] = (float)NAN;
  EXPECT_ERROR(millrace_stream_add(stream, other, kWeights), "finite");
  EXPECT(weights[17] == 0);
  millrace_stream_close(stream);

  stream = Open(topology, "a", weights);
  EXPECT_OK(millrace_stream_join(stream, 120));
  EXPECT_OK(millrace_stream_fail(stream, "the disk is full", 1));
  EXPECT_ERROR(millrace_stream_add(stream, weights, kWeights), "has failed");
  millrace_stream_close(stream);
  millrace_stream_close(NULL);
  millrace_floats_free(weights);
  millrace_floats_free(other);
}
