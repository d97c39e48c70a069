// Private files in a world-writable directory such as /dev/shm. No function here follows a symbolic
// link, blocks on another process or writes to an existing file.
#ifndef MILLRACE_BASE_FILES_PRIVATE_FILE_H_
#define MILLRACE_BASE_FILES_PRIVATE_FILE_H_

#include <sys/stat.h>

#include <optional>
#include <string>

#include "millrace/file_descriptor.h"

namespace millrace::inline base {

// Creates an unnamed empty file (O_TMPFILE, mode 0600) in `folder`. Returns a read-write
// descriptor, which the caller closes, or -1 with errno. A process that is killed leaves nothing
// behind.
int CreateUnnamed(const std::string& folder);

// Gives a file made by CreateUnnamed() the name `path`. Returns false with errno on failure:
// EEXIST if the name is taken.
bool LinkUnnamed(int fd, const std::string& path);

// Unlinks `path` if it names the file that `fd` refers to.
void UnlinkIfSame(int fd, const std::string& path);

// A directory entry of any kind, found without opening the file.
struct FoundFile {
  FileDescriptor at;  // O_PATH
  struct stat status;
};
// Looks up `path`. Returns nullopt if it does not exist. Throws Error naming the path.
std::optional<FoundFile> FindFile(const std::string& path);

// Opens the found file for reading; it must be a regular file. Throws Error naming `path`, which
// need not refer to that file any more.
FileDescriptor OpenFound(const FoundFile& found, const std::string& path);

// Describes the file type in st_mode: "a regular file", "a symbolic link", "a FIFO", ...
const char* FileKind(mode_t mode);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_FILES_PRIVATE_FILE_H_
