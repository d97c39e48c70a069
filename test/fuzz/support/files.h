// Inputs as files, for readers that take paths.
#ifndef MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_
#define MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_

#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::fuzz {

// An in-memory file with a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// An in-memory directory, removed with its content at the end of the scope.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& content) const;
  // Removes the file or directory of files with that name, if it exists.
  void Remove(const std::string& name) const;
  // Number of files and directories in it.
  int entries() const;

 private:
  std::string path_;
};

// Whether an error is well-formed: one line that begins with one of `paths`.
bool IsOneLineNaming(const Error& error, const std::vector<std::string>& paths);

}  // namespace millrace::fuzz

#endif  // MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_
