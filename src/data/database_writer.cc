#include "data/database_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"

namespace millrace::inline data {
namespace {

void SyncFolder(const std::string& path) {
  const int folder = open(path.empty() ? "." : path.c_str(), O_RDONLY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

std::string DatabasePath(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string TemporaryPath(const std::string& path) { return StrCat(path, ".", getpid(), ".tmp"); }

void MakeNewFolder(const std::string& path, const std::string& temporary) {
  if (FileExists(path)) throw Error(path, ": exists already; remove it or name another");
  if (mkdir(temporary.c_str(), 0755) != 0) {
    throw Error(path, ": cannot be created: ", ErrnoText(errno));
  }
}

void RenameFolder(const std::string& temporary, const std::string& path) {
  SyncFolder(temporary);
  // rename replaces an empty folder that has appeared meanwhile, but nothing else.
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    throw Error(path, ": cannot be written: ", ErrnoText(errno));
  }
  SyncFolder(Dirname(path));
}

}  // namespace millrace::inline data
