// Streams, sessions and runs whose nodes join by a registry: etcd at MILLRACE_TEST_ETCD
// (HOST:PORT).
#include <stdio.h>
#include <stdlib.h>

#include "test/capi/check.h"

enum { kWeights = 10000, kText = 200 };

// The run `name` in etcd, for the node at 127.0.0.`host`.
static const char* Url(char* text, const char* name, int host) {
  snprintf(text, kText, "etcd://%s/" LANGUAGE "_%s?lease=5&address=127.0.0.%d",
           getenv("MILLRACE_TEST_ETCD"), name, host);
  return text;
}

static millrace_stream* OpenStream(const char* folder, int host, float* weights) {
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream* stream = NULL;
  char url[kText];
  options.topology = CapiPath(folder, LANGUAGE "_segments.prototxt");
  options.rendezvous = Url(url, "stream", host);
  options.nodes = "1:2";
  EXPECT_OK(millrace_stream_open(&options, weights, kWeights, &stream));
  return stream;
}

CAPI_TEST(ElasticStream) {
  float* const a_weights = millrace_floats_alloc(kWeights);
  float* const b_weights = millrace_floats_alloc(kWeights);
  float* const delta = millrace_floats_alloc(kWeights);
  millrace_stream *a = NULL, *b = NULL;
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  char url[kText];
  int i = 0;

  a_weights[5] = 3;
  a = OpenStream(folder, 2, a_weights);
  EXPECT_OK(millrace_stream_join(a, 120));
  b = OpenStream(folder, 3, b_weights);
  EXPECT_OK(millrace_stream_join(b, 120));
  EXPECT(b_weights[5] == 3);
  for (i = 0; i < kWeights; ++i) delta[i] = 1;
  EXPECT_OK(millrace_stream_add(b, delta, kWeights));
  // b hands its progress to a.
  EXPECT_OK(millrace_stream_leave(b));
  EXPECT_OK(millrace_stream_finish(a));
  for (i = 0; i < kWeights; ++i) EXPECT(a_weights[i] == (i == 5 ? 4 : 1));
  millrace_stream_close(b);
  millrace_stream_close(a);

  // Without a topology, the run has one segment of its own.
  options.rendezvous = Url(url, "stream", 2);
  EXPECT_ERROR(millrace_stream_open(&options, a_weights, kWeights, &a), "--nodes=");
  options.nodes = "1:2";
  options.node = "a";
  EXPECT_ERROR(millrace_stream_open(&options, a_weights, kWeights, &a), "--node=a: expected none");
  millrace_floats_free(a_weights);
  millrace_floats_free(b_weights);
  millrace_floats_free(delta);
}

static millrace_session* OpenSession(const char* folder, int host) {
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_session* session = NULL;
  char url[kText];
  options.topology = CapiPath(folder, LANGUAGE "_segments.prototxt");
  options.rendezvous = Url(url, "session", host);
  options.nodes = "1:2";
  options.join_seconds = 120;
  EXPECT_OK(millrace_session_open(CapiPath(folder, "endless.prototxt"), &options, &session));
  return session;
}

CAPI_TEST(ElasticSession) {
  millrace_session* const a = OpenSession(folder, 2);
  millrace_session* b = NULL;
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  char url[kText];
  int i = 0;
  for (i = 0; i < 3; ++i) EXPECT_OK(millrace_session_step(a, NULL));
  b = OpenSession(folder, 3);
  EXPECT(millrace_session_iteration(b) == 3);
  EXPECT_OK(millrace_session_step(b, NULL));
  EXPECT(millrace_session_is_leader(a) + millrace_session_is_leader(b) == 1);
  EXPECT_OK(millrace_session_leave(b));
  EXPECT_OK(millrace_session_leave(a));
  millrace_session_close(b);
  millrace_session_close(a);
  options.rendezvous = Url(url, "session", 2);
  options.nodes = "1:2";
  options.past_max_iter = 1;
  EXPECT_ERROR(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &b),
               "past_max_iter: expected no cluster");
}

CAPI_TEST(ElasticRun) {
  millrace_run_options options = MILLRACE_RUN_OPTIONS_INIT;
  millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
  millrace_control_options control = MILLRACE_CONTROL_OPTIONS_INIT;
  millrace_control* service = NULL;
  millrace_run *a = NULL, *b = NULL;
  char url[kText];
  options.solver_file = CapiPath(folder, "endless.prototxt");
  options.topology = CapiPath(folder, LANGUAGE "_segments.prototxt");
  options.rendezvous = Url(url, "run", 2);
  options.nodes = "3:2";
  EXPECT_OK(millrace_run_start(&options, &a));
  EXPECT_ERROR(millrace_run_wait(a, NULL), "--nodes=3:2: expected MIN:MAX");
  millrace_run_close(a);
  // Neither begins without the other.
  options.nodes = "2:2";
  EXPECT_OK(millrace_run_start(&options, &a));
  options.rendezvous = Url(url, "run", 3);
  EXPECT_OK(millrace_run_start(&options, &b));
  do {
    EXPECT(millrace_run_wait_for(b, 0.01) == MILLRACE_END);
    EXPECT_OK(millrace_run_get_status(b, &status));
  } while (status.state != MILLRACE_RUN_ENDED && status.iteration < 5);
  EXPECT(strlen(status.node) > 0);
  EXPECT(strcmp(status.cluster, LANGUAGE "_run") == 0);
  control.rendezvous = options.rendezvous;
  EXPECT_OK(millrace_control_open(&control, b, &service));
  EXPECT(strncmp(millrace_control_url(service), "http://127.0.0.1:", 17) == 0);
  millrace_control_close(service);
  EXPECT_OK(millrace_run_stop(b));
  EXPECT_OK(millrace_run_stop(a));
  EXPECT_OK(millrace_run_wait(b, NULL));
  EXPECT_OK(millrace_run_wait(a, NULL));
  millrace_run_close(a);
  millrace_run_close(b);
}
