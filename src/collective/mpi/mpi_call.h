// Calls of MPI that report their failure as Error.
#ifndef MILLRACE_COLLECTIVE_MPI_MPI_CALL_H_
#define MILLRACE_COLLECTIVE_MPI_MPI_CALL_H_

#include <mpi.h>

#include <string>

#include "base/error.h"

namespace millrace::inline collective {

// Throws Error unless `code`, the result of the MPI function `name`, is success.
inline void CheckMpi(int code, const char* name) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(name, ": ", std::string(text, length));
}

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_MPI_MPI_CALL_H_
