// An LMDB database opened for reading: one environment and one long read
// transaction per file and process, so that views into the mapped file stay
// valid as long as the database object lives, whatever writers do meanwhile.
//
// LMDB keeps the transaction; records are found by data/lmdb_tree.h in a mapping of our own
// (base/mapped_file.h). So a file that is damaged, or truncated while it is in use, ends no
// process: views stay readable, as zeros where bytes are gone, and ThrowIfDamaged() says so.
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

namespace millrace {

// Points into the mapped file of an LmdbDatabase, which must outlive it.
struct RecordView {
  std::string_view key, value;
  int source = 0;  // index among the sources of a stream
};

// Thread-safe.
class LmdbDatabase {
 public:
  // The database in folder `path`; the one that this process has open already,
  // if it has. Throws Error in one line when there is none, when it is empty,
  // truncated, damaged, or a LevelDB.
  static std::shared_ptr<LmdbDatabase> Open(const std::string& path);
  // Closes the environment.
  ~LmdbDatabase();
  LmdbDatabase(const LmdbDatabase&) = delete;
  LmdbDatabase& operator=(const LmdbDatabase&) = delete;

  const std::string& path() const { return path_; }
  // Number of records; at least one.
  uint64_t size() const { return meta_.entries; }

  // To be called after bytes of records have been read, before they are made use of: throws Error
  // if some of them were not the file's, because it was truncated or cannot be read.
  void ThrowIfDamaged() const;

  // Reads records by number, in the order of their keys. Used by one thread.
  class Cursor {
   public:
    // With `indexed`, any record is found at once, at the price of one walk over
    // all keys when the first such cursor of the database is made (interruptible)
    // and 24 bytes a record. Without, going forward by n costs n small steps, and
    // going back starts at the first record.
    Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed);

    // Record `index`, below the database's size(). Throws Error if the database
    // cannot be read.
    RecordView At(uint64_t index);

   private:
    const std::shared_ptr<LmdbDatabase> database_;
    const bool indexed_;
    std::optional<LmdbWalk> walk_;
    uint64_t next_ = 0;  // the record that walk_ gives
    RecordView current_;
  };

 private:
  struct IndexEntry {
    const char *key, *value;
    uint32_t key_size, value_size;
  };

  explicit LmdbDatabase(const std::string& path);
  void OpenEnvironment(unsigned flags);
  // The newest state in the open file; throws Error if that cannot be it, or the file is too short.
  LmdbMeta ReadMeta(int fd) const;
  // Begins the transaction, and finds the state of the file that it holds.
  void BeginTransaction();
  void Close();
  void BuildIndex();
  // The next record; throws Error naming the database.
  RecordView Next(LmdbWalk* walk) const;

  const std::string path_;
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  mdb_filehandle_t file_ = -1;  // the environment's
  LmdbMeta meta_;
  std::optional<MappedFile> mapping_;

  std::mutex index_mutex_;
  std::vector<IndexEntry> index_;  // written once, under index_mutex_
};

}  // namespace millrace

#endif  // MILLRACE_DATA_LMDB_DATABASE_H_
