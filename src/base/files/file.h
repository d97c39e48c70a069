// File access with errors that name the path, and atomic replacement: a replaced file has either
// its old or its complete new contents, even after a crash.
#ifndef MILLRACE_BASE_FILES_FILE_H_
#define MILLRACE_BASE_FILES_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace millrace::inline base {

// Returns the whole file. Throws Error naming the path; a directory is an error.
std::string ReadFile(const std::string& path);

// Writes to a temporary file beside `path`. Commit() syncs it and renames it to `path`. Without
// Commit() the destructor removes the temporary file and leaves `path` unchanged. A process that is
// killed leaves the temporary file PATH.SYSTEM.PID.START.tmp. SYSTEM is 16 hexadecimal digits that
// identify the boot and the PID namespace; START is the start time of the process
// (ProcessIdentity).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws Error naming the path and the reason, for example a full disk.
  void Write(std::string_view bytes);
  void Commit();

  // Descriptor for writers that need one. This object keeps ownership.
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_, temporary_;
  int fd_;
};

// Removes temporary files in `folder` that killed processes left behind and returns their number.
// "" is the working directory. `is_meant` selects the AtomicFiles by the last component of their
// path. A file is removed only if the effective user owns it and its writer is gone: either the
// writer belongs to this SYSTEM and no longer runs, or it belongs to another one (another machine,
// container or boot) and the file has not been modified for kForeignTemporarySeconds.
inline constexpr int64_t kForeignTemporarySeconds = 3600;
int RemoveStaleTemporaries(const std::string& folder,
                           const std::function<bool(std::string_view name)>& is_meant);

// Creates the directory `path` and its parents. Throws Error.
void MakeDirectories(const std::string& path);

// The directory part of `path`, ending in '/'; "" if there is none.
std::string Dirname(const std::string& path);

bool FileExists(const std::string& path);

// Resolves a path found in the file `named_in`. As in Caffe, it is relative to the working
// directory. If nothing exists there, the directory of `named_in` is tried.
std::string ResolveBeside(const std::string& path, const std::string& named_in);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_FILES_FILE_H_
