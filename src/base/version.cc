#include "millrace/version.h"

#define MILLRACE_TEXT(x) #x
#define MILLRACE_JOIN(a, b, c) MILLRACE_TEXT(a) "." MILLRACE_TEXT(b) "." MILLRACE_TEXT(c)

namespace millrace {

const char* Version() {
  return MILLRACE_JOIN(MILLRACE_VERSION_MAJOR, MILLRACE_VERSION_MINOR, MILLRACE_VERSION_PATCH);
}

}  // namespace millrace
