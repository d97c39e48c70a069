// Inputs as files, for readers that take paths.
#ifndef MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_
#define MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_

#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::fuzz {

// A file in memory that has a path.
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

// A folder in memory, removed with its content at the end of scope.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& content) const;
  // Removes what is there of that name, a file or a folder of files.
  void Remove(const std::string& name) const;
  // How many files and folders it holds.
  int entries() const;

 private:
  std::string path_;
};

// Whether a refusal is as it should be: one line that begins with one of `paths`.
bool IsOneLineNaming(const Error& error, const std::vector<std::string>& paths);

}  // namespace millrace::fuzz

#endif  // MILLRACE_TEST_FUZZ_SUPPORT_FILES_H_
