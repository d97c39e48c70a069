#include "test/fuzz/support/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace millrace::fuzz {
namespace {

void WriteAll(int fd, const std::string& content) {
  if (fd < 0 || write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    abort();
  }
}

}  // namespace

MemoryFile::MemoryFile(const std::string& content) : fd_(memfd_create("fuzz", 0)) {
  WriteAll(fd_, content);
  path_ = StrCat("/proc/self/fd/", fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

MemoryFolder::MemoryFolder() {
  char name[] = "/dev/shm/millrace-fuzz-XXXXXX";
  if (!mkdtemp(name)) abort();
  path_ = name;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void MemoryFolder::Write(const std::string& name, const std::string& content) const {
  const int fd = open((*this / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  WriteAll(fd, content);
  close(fd);
}

void MemoryFolder::Remove(const std::string& name) const {
  std::filesystem::remove_all(*this / name);
}

int MemoryFolder::entries() const {
  const std::filesystem::directory_iterator all(path_);
  return static_cast<int>(std::distance(begin(all), end(all)));
}

bool IsOneLineNaming(const Error& error, const std::vector<std::string>& paths) {
  const std::string text = error.what();
  return text.find('\n') == std::string::npos &&
         std::any_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return text.rfind(path, 0) == 0; });
}

}  // namespace millrace::fuzz
