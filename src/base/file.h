// Files as users meet them: errors name the path, and a file that is replaced
// is either the old one or the whole new one, whatever happens in between.
#ifndef MILLRACE_BASE_FILE_H_
#define MILLRACE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace millrace {

// The whole file. Throws Error naming the path; a directory is an error.
std::string ReadFile(const std::string& path);

// Writes to a temporary name beside `path`; Commit() syncs and renames. Without
// Commit() the temporary file is removed and `path` is as it was. A process that is killed
// leaves the temporary file, PATH.SYSTEM.PID.START.tmp: SYSTEM is 16 hexadecimal digits for the
// boot and the namespace of process ids, START when the process started (ProcessIdentity).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws Error naming the path and the reason (a full disk, for example).
  void Write(std::string_view bytes);
  void Commit();

  // For writers that take a descriptor; owned by this object.
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_, temporary_;
  int fd_;
};

// Removes temporary files in `folder` that killed processes have left of those AtomicFiles whose
// path's last component `is_meant` says; returns how many. A file of this user's is removed if
// its writer was of this SYSTEM and runs no more, or was of another (another machine, container or
// boot) and has not written for kForeignTemporarySeconds. "": the working directory.
inline constexpr int64_t kForeignTemporarySeconds = 3600;
int RemoveStaleTemporaries(const std::string& folder,
                           const std::function<bool(std::string_view name)>& is_meant);

// Creates `path` and its parents as needed.
void MakeDirectories(const std::string& path);

// The folder part of a path: "" when there is none, else ending in '/'.
std::string Dirname(const std::string& path);

bool FileExists(const std::string& path);

// As Caffe does, paths inside a prototxt are relative to the working directory;
// if nothing is there, the folder of the file that names it is tried.
std::string ResolveBeside(const std::string& path, const std::string& named_in);

}  // namespace millrace

#endif  // MILLRACE_BASE_FILE_H_
