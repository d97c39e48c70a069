// Marks what libmillrace.so offers to programs. Everything else in the library is hidden.
#ifndef MILLRACE_EXPORT_H_
#define MILLRACE_EXPORT_H_

#define MILLRACE_API __attribute__((visibility("default")))

#endif  // MILLRACE_EXPORT_H_
