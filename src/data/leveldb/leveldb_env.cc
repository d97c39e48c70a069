#include "data/leveldb/leveldb_env.h"

#include <fcntl.h>
#include <leveldb/helpers/memenv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline data {
namespace {

using leveldb::Slice;
using leveldb::Status;

class PreadFile : public leveldb::RandomAccessFile {
 public:
  PreadFile(const std::string& name, int fd) : name_(name), file_(fd) {}

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    size_t got = 0;
    while (got < n) {
      const ssize_t more =
          pread(file_.get(), scratch + got, n - got, static_cast<off_t>(offset + got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return Status::IOError(name_, ErrnoText(errno));
      if (more == 0) break;  // LevelDB reports the missing bytes
      got += static_cast<size_t>(more);
    }
    *result = Slice(scratch, got);
    return Status::OK();
  }

 private:
  const std::string name_;
  const FileDescriptor file_;
};

class NoLogger : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

Status Frozen(const std::string& name) {
  return Status::NotSupported(name, "the database is only read");
}

}  // namespace

ReadOnlyLevelDbEnv::ReadOnlyLevelDbEnv()
    : EnvWrapper(leveldb::Env::Default()), memory_(leveldb::NewMemEnv(leveldb::Env::Default())) {}

ReadOnlyLevelDbEnv::~ReadOnlyLevelDbEnv() = default;

bool ReadOnlyLevelDbEnv::IsRemoved(const std::string& name) {
  std::lock_guard lock(mutex_);
  return removed_.count(name) > 0;
}

Status ReadOnlyLevelDbEnv::NewSequentialFile(const std::string& name,
                                             leveldb::SequentialFile** result) {
  if (memory_->FileExists(name)) return memory_->NewSequentialFile(name, result);
  if (IsRemoved(name)) return Status::NotFound(name, "removed");
  return EnvWrapper::NewSequentialFile(name, result);
}

Status ReadOnlyLevelDbEnv::NewRandomAccessFile(const std::string& name,
                                               leveldb::RandomAccessFile** result) {
  *result = nullptr;
  if (memory_->FileExists(name)) return memory_->NewRandomAccessFile(name, result);
  if (IsRemoved(name)) return Status::NotFound(name, "removed");
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    const std::string reason = ErrnoText(error);
    return error == ENOENT ? Status::NotFound(name, reason) : Status::IOError(name, reason);
  }
  *result = new PreadFile(name, fd);
  return Status::OK();
}

Status ReadOnlyLevelDbEnv::NewWritableFile(const std::string& name,
                                           leveldb::WritableFile** result) {
  *result = nullptr;
  return frozen_ ? Frozen(name) : memory_->NewWritableFile(name, result);
}

Status ReadOnlyLevelDbEnv::NewAppendableFile(const std::string& name, leveldb::WritableFile**) {
  return Frozen(name);
}

bool ReadOnlyLevelDbEnv::FileExists(const std::string& name) {
  return memory_->FileExists(name) || (!IsRemoved(name) && EnvWrapper::FileExists(name));
}

Status ReadOnlyLevelDbEnv::GetChildren(const std::string& folder,
                                       std::vector<std::string>* result) {
  const Status status = EnvWrapper::GetChildren(folder, result);
  if (!status.ok()) return status;
  std::erase_if(*result, [&](const std::string& name) { return IsRemoved(folder + "/" + name); });
  std::vector<std::string> added;
  memory_->GetChildren(folder, &added);
  result->insert(result->end(), added.begin(), added.end());
  return Status::OK();
}

Status ReadOnlyLevelDbEnv::RemoveFile(const std::string& name) {
  if (memory_->FileExists(name)) return memory_->RemoveFile(name);
  std::lock_guard lock(mutex_);
  removed_.insert(name);
  return Status::OK();
}

Status ReadOnlyLevelDbEnv::CreateDir(const std::string&) { return Status::OK(); }
Status ReadOnlyLevelDbEnv::RemoveDir(const std::string&) { return Status::OK(); }

Status ReadOnlyLevelDbEnv::GetFileSize(const std::string& name, uint64_t* size) {
  if (memory_->FileExists(name)) return memory_->GetFileSize(name, size);
  return EnvWrapper::GetFileSize(name, size);
}

Status ReadOnlyLevelDbEnv::RenameFile(const std::string& from, const std::string& to) {
  // LevelDB renames files that it has just written, and its old LOG.
  return memory_->FileExists(from) ? memory_->RenameFile(from, to) : Status::OK();
}

Status ReadOnlyLevelDbEnv::LockFile(const std::string&, leveldb::FileLock** lock) {
  *lock = new leveldb::FileLock;
  return Status::OK();
}

Status ReadOnlyLevelDbEnv::UnlockFile(leveldb::FileLock* lock) {
  delete lock;
  return Status::OK();
}

void ReadOnlyLevelDbEnv::Schedule(void (*function)(void* argument), void* argument) {
  frozen_ = true;
  EnvWrapper::Schedule(function, argument);
}

Status ReadOnlyLevelDbEnv::NewLogger(const std::string&, leveldb::Logger** result) {
  *result = new NoLogger;
  return Status::OK();
}

}  // namespace millrace::inline data
