// The environment of a LevelDB that is only read. LevelDB has no mode for that: opening a database
// takes its lock, replays its log into new files and may start to compact it. Here new files live
// in memory, no lock is taken, and no file of the database is written, renamed or removed. So many
// processes may read a database at once, also on read-only media. A process that writes the
// database meanwhile is not noticed.
//
// Files are read with pread, not mapped: a file that is truncated while in use gives an error, not
// a signal. From the first background work on, new files are refused, so that LevelDB does not
// rewrite a large database into memory; it then stops compacting and goes on to read.
#ifndef MILLRACE_DATA_LEVELDB_LEVELDB_ENV_H_
#define MILLRACE_DATA_LEVELDB_LEVELDB_ENV_H_

#include <leveldb/env.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace millrace::inline data {

// Thread-safe.
class ReadOnlyLevelDbEnv : public leveldb::EnvWrapper {
 public:
  ReadOnlyLevelDbEnv();
  ~ReadOnlyLevelDbEnv() override;

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** result) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** result) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override;
  leveldb::Status NewAppendableFile(const std::string& name,
                                    leveldb::WritableFile** result) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* result) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string& folder) override;
  leveldb::Status RemoveDir(const std::string& folder) override;
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*function)(void* argument), void* argument) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** result) override;

 private:
  bool IsRemoved(const std::string& name);

  const std::unique_ptr<leveldb::Env> memory_;  // holds the new files
  std::atomic<bool> frozen_{false};             // no new files any more
  std::mutex mutex_;
  std::set<std::string> removed_;  // files of the database that count as removed
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_LEVELDB_LEVELDB_ENV_H_
