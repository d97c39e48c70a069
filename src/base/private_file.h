// Files of one user in a folder where everybody may create files, such as /dev/shm. Nothing
// here follows a symbolic link, waits for another process or writes to a file that was there
// before.
#ifndef MILLRACE_BASE_PRIVATE_FILE_H_
#define MILLRACE_BASE_PRIVATE_FILE_H_

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/file_descriptor.h"

namespace millrace {

// The descriptor, which the caller closes, of a new empty file of this user (mode 0600) in
// `folder`, open for reading and writing. It has no name: a process that is killed leaves
// nothing behind. -1 with errno if it cannot be made.
int CreateNameless(const std::string& folder);

// Gives a file of CreateNameless the name `path`. False with errno if it cannot: EEXIST if
// anything has that name.
bool LinkNameless(int fd, const std::string& path);

// Removes the name `path` if it leads to the file that `fd` is open for.
void UnlinkIfSame(int fd, const std::string& path);

// Whatever has the name `path`, found without opening it.
struct FoundFile {
  FileDescriptor at;  // O_PATH
  struct stat status;
};
// Nothing if nothing has that name. Throws Error naming the path.
std::optional<FoundFile> FindFile(const std::string& path);

// Opens the file that was found, if it is a regular one, for reading. Throws Error naming
// `path`, which does not need to lead to it any more.
FileDescriptor OpenFound(const FoundFile& found, const std::string& path);

// "a regular file", "a symbolic link", "a FIFO", ... by stat's st_mode.
const char* FileKind(mode_t mode);

}  // namespace millrace

#endif  // MILLRACE_BASE_PRIVATE_FILE_H_
