// An LMDB database opened for reading. One environment and one long read transaction per file and
// process keep views of the mapped file valid as long as the database object exists, whatever
// writers do.
//
// LMDB holds the transaction. Records are found by data/lmdb_tree.h in a separate mapping
// (base/mapped_file.h), so that a file that is damaged, or truncated while in use, does not end the
// process: views stay readable, with zeros for missing bytes, and ThrowIfDamaged() reports the
// damage.
#ifndef MILLRACE_DATA_LMDB_DATABASE_H_
#define MILLRACE_DATA_LMDB_DATABASE_H_

#include <lmdb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "data/lmdb_tree.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// Records refer to the mapped file. Thread-safe.
class LmdbDatabase : public DataSource, public std::enable_shared_from_this<LmdbDatabase> {
 public:
  // Opens the database in folder `path`, or returns the object if this process has it open already.
  // Throws Error in one line if there is no database, or if it is empty, truncated, damaged, or a
  // LevelDB.
  static std::shared_ptr<LmdbDatabase> Open(const std::string& path);
  // Closes the environment.
  ~LmdbDatabase() override;
  LmdbDatabase(const LmdbDatabase&) = delete;
  LmdbDatabase& operator=(const LmdbDatabase&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return meta_.entries; }
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override {
    return std::make_unique<Cursor>(shared_from_this(), random_access);
  }

  // Call after reading bytes of records and before using them. Throws Error if some of them were
  // not the file's, because it was truncated or cannot be read.
  void ThrowIfDamaged() const override;

  // Reads records by number, in the order of their keys. Used by one thread.
  class Cursor : public RecordReader {
   public:
    // With `indexed`, any record is found at once. The first such cursor of a database walks over
    // all keys (interruptible) and stores 24 bytes per record. Without, moving forward by n takes n
    // small steps, and moving back restarts at the first record.
    Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed);

    // Returns record `index`, which is below the database's size(). Throws Error if the database
    // cannot be read.
    RecordView At(uint64_t index) override;

   private:
    const std::shared_ptr<LmdbDatabase> database_;
    const bool indexed_;
    std::optional<LmdbWalk> walk_;
    uint64_t next_ = 0;  // number of the record that walk_ returns next
    RecordView current_;
  };

 private:
  struct IndexEntry {
    const char *key, *value;
    uint32_t key_size, value_size;
  };

  explicit LmdbDatabase(const std::string& path);
  void OpenEnvironment(unsigned flags);
  // The newest state in the open file. Throws Error if it is not valid or the file is too short.
  LmdbMeta ReadMeta(int fd) const;
  // Begins the transaction and reads the state of the file that it refers to.
  void BeginTransaction();
  void Close();
  void BuildIndex();
  // Returns the next record. Throws Error naming the database.
  RecordView Next(LmdbWalk* walk) const;

  const std::string path_;
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  mdb_filehandle_t file_ = -1;  // owned by the environment
  LmdbMeta meta_;
  std::optional<MappedFile> mapping_;

  std::mutex index_mutex_;
  std::vector<IndexEntry> index_;  // written once, under index_mutex_
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_LMDB_DATABASE_H_
