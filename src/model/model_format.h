// Formats of other programs that a net with its weights can be written in.
#ifndef MILLRACE_MODEL_MODEL_FORMAT_H_
#define MILLRACE_MODEL_MODEL_FORMAT_H_

#include <string>

#include "millrace/export.h"
#include "nn/net.h"

namespace millrace::inline model {

// Writes `net`, on the host, in plain memory order and with its weights bound, to the file `path`.
// Throws Error with one line that names all layers which the format has nothing for.
using WriteModelFile = void (*)(const BuiltNet& net, const std::string& path);

// Registers a writer. Define one at namespace scope, in a file that is compiled only where the
// library of the format is installed.
struct RegisterModelFormat {
  RegisterModelFormat(const std::string& format, WriteModelFile write);
};

// The writer of `format`, the value of a flag --to. Throws Error naming the flag if there is no
// such format, or if this build lacks its library.
MILLRACE_API WriteModelFile FindModelFormat(const std::string& format);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_MODEL_FORMAT_H_
