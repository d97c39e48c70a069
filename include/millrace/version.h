// The version of Millrace. Programs built with one minor version run with libraries of the same
// minor version, which is the number in the library's soname.
#ifndef MILLRACE_VERSION_H_
#define MILLRACE_VERSION_H_

#include "millrace/export.h"

#define MILLRACE_VERSION_MAJOR 0
#define MILLRACE_VERSION_MINOR 9
#define MILLRACE_VERSION_PATCH 0

namespace millrace {

// "0.9.0": the version of the library in use, which may be newer than that of the headers.
// Constant.
MILLRACE_API const char* Version();

}  // namespace millrace

#endif  // MILLRACE_VERSION_H_
