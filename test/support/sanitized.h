// Whether the tests are built with a sanitizer.
#ifndef MILLRACE_TEST_SUPPORT_SANITIZED_H_
#define MILLRACE_TEST_SUPPORT_SANITIZED_H_

namespace millrace::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_SANITIZED_H_
