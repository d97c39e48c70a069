// Versions, errors, log level, memory; loading plugins; metrics without any.
#include <stdint.h>

#include "millrace/plugin.h"
#include "test/capi/check.h"

CAPI_TEST(Library) {
  float* floats = NULL;
  size_t i = 0;
  char text[2000];

  EXPECT(millrace_abi_version() == MILLRACE_ABI_VERSION);
  EXPECT_OK(MILLRACE_CHECK_ABI());
  EXPECT_ERROR(millrace_check_abi(MILLRACE_ABI_VERSION + 1), "serves 1 to");
  EXPECT_ERROR(millrace_check_abi(0), "compiled with interface 0");
  EXPECT(strchr(millrace_version(), '.') != NULL);

  EXPECT(millrace_fail("%d of %s\nand more", 3, "four") == MILLRACE_ERROR);
  EXPECT(strcmp(millrace_last_error(), "3 of four?and more") == 0);
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  EXPECT(millrace_fail("%s", text) == MILLRACE_ERROR);
  EXPECT(strlen(millrace_last_error()) == 1000);

  EXPECT_ERROR(millrace_set_log_level(3), "expected 0, 1 or 2");
  EXPECT_ERROR(millrace_set_log_level(-1), "level is -1");
  EXPECT_OK(millrace_set_log_level(0));

  floats = millrace_floats_alloc(100);
  EXPECT(floats != NULL && (uintptr_t)floats % 64 == 0);
  for (i = 0; floats != NULL && i < 100; ++i) EXPECT(floats[i] == 0);
  millrace_floats_free(floats);
  millrace_floats_free(NULL);
  EXPECT_VALUE_ERROR(millrace_floats_alloc(0), NULL, "count is 0");
  EXPECT_VALUE_ERROR(millrace_floats_alloc(SIZE_MAX), NULL, "expected 1 to");

  EXPECT_ERROR(millrace_load_plugin(NULL), "millrace_load_plugin: path is NULL");
  EXPECT_ERROR(millrace_load_plugin(CapiPath(folder, "none.so")), "expected a shared library");
  EXPECT_ERROR(millrace_load_plugin(CapiPath(folder, "net.prototxt")), "net.prototxt");
}

CAPI_TEST(Metrics) {
  millrace_session_options options = MILLRACE_SESSION_OPTIONS_INIT;
  millrace_session* session = NULL;
  millrace_metrics* metrics = NULL;
  millrace_metric metric = MILLRACE_METRIC_INIT;
  size_t i = 0, found = 0;

  options.metrics = 1;
  EXPECT_OK(millrace_session_open(CapiPath(folder, "session.prototxt"), &options, &session));
  EXPECT_OK(millrace_session_step(session, NULL));
  EXPECT_OK(millrace_metrics_read(&metrics));
  for (i = 0; i < millrace_metrics_count(metrics); ++i) {
    EXPECT_OK(millrace_metrics_get(metrics, i, &metric));
    EXPECT(metric.labels != NULL && metric.unit != NULL && strlen(metric.help) > 0);
    if (strcmp(metric.name, "millrace_run_iterations_here_total") != 0) continue;
    ++found;
    EXPECT(metric.value == 1 && metric.is_counter == 1);
  }
  EXPECT(found == 1);
  EXPECT_ERROR(millrace_metrics_get(metrics, i, &metric), "expected less than");
  metric.size = 1;
  EXPECT_ERROR(millrace_metrics_get(metrics, 0, &metric), "millrace_metric: size is 1, expected");
  EXPECT_ERROR(millrace_metrics_get(metrics, 0, NULL), "millrace_metric is NULL");
  metric.size = sizeof(metric);
  EXPECT_ERROR(millrace_metrics_get(NULL, 0, &metric), "metrics is NULL");
  EXPECT_ERROR(millrace_metrics_read(NULL), "metrics is NULL");
  EXPECT_VALUE_ERROR(millrace_metrics_count(NULL), 0, "metrics is NULL");
  millrace_metrics_close(metrics);
  millrace_metrics_close(NULL);
  millrace_session_close(session);
}
