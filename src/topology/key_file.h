// Files with the secret that the nodes of a segment share.
#ifndef MILLRACE_TOPOLOGY_KEY_FILE_H_
#define MILLRACE_TOPOLOGY_KEY_FILE_H_

#include <string>

namespace millrace {

// Throws Error, one line that begins with `path` and holds none of the content, unless
// that is a regular file which grants its group and others nothing, and holds a key: 32
// bytes, or 64 hex digits that may end with a line break.
void CheckKeyFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_KEY_FILE_H_
