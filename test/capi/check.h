// Expectations in tests that are C files, each compiled as C99 and as C++.
#ifndef MILLRACE_TEST_CAPI_CHECK_H_
#define MILLRACE_TEST_CAPI_CHECK_H_

#include <string.h>

#include "millrace/millrace.h"

#ifdef __cplusplus
#define LANGUAGE "cpp"
#define CAPI_TEST(name) extern "C" void cpp_##name(const char* folder)
extern "C" {
#else
#define LANGUAGE "c99"
#define CAPI_TEST(name) void c99_##name(const char* folder)
#endif

// Records a failure of the running test (capi_test.cc).
void CapiFailed(const char* file, int line, const char* what);
// FOLDER/NAME; valid until the test ends.
const char* CapiPath(const char* folder, const char* name);

#ifdef __cplusplus
}
#endif

// Whether the last error has `part` and is one line.
static inline int CapiErrorHas(const char* part) {
  return strstr(millrace_last_error(), part) != NULL && strchr(millrace_last_error(), '\n') == NULL;
}

#define EXPECT(condition) ((condition) ? (void)0 : CapiFailed(__FILE__, __LINE__, #condition))
#define EXPECT_OK(call) EXPECT((call) == MILLRACE_OK)
// `call` returns a status: MILLRACE_ERROR, with `part` in the text.
#define EXPECT_ERROR(call, part) EXPECT((call) == MILLRACE_ERROR && CapiErrorHas(part))
// `call` returns `value`, with `part` in the text of the error.
#define EXPECT_VALUE_ERROR(call, value, part) EXPECT((call) == (value) && CapiErrorHas(part))

#endif  // MILLRACE_TEST_CAPI_CHECK_H_
