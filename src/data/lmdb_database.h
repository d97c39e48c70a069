// An LMDB database opened for reading: one environment and one long read
// transaction per file and process, so that views into the mapped file stay
// valid as long as the database object lives, whatever writers do meanwhile.
#ifndef MILLRACE_DATA_LMDB_DATABASE_H_
#define MILLRACE_DATA_LMDB_DATABASE_H_

#include <lmdb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

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
  // truncated, or a LevelDB.
  static std::shared_ptr<LmdbDatabase> Open(const std::string& path);
  // Closes the environment.
  ~LmdbDatabase();
  LmdbDatabase(const LmdbDatabase&) = delete;
  LmdbDatabase& operator=(const LmdbDatabase&) = delete;

  const std::string& path() const { return path_; }
  // Number of records; at least one.
  uint64_t size() const { return size_; }

  // Reads records by number, in the order of their keys. Used by one thread.
  class Cursor {
   public:
    // With `indexed`, any record is found at once, at the price of one walk over
    // all keys when the first such cursor of the database is made (interruptible)
    // and 24 bytes a record. Without, going forward by n costs n small steps, and
    // going back starts at the first record.
    Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed);
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    // Record `index`, below the database's size(). Throws Error if the database
    // cannot be read.
    RecordView At(uint64_t index);

   private:
    const std::shared_ptr<LmdbDatabase> database_;
    const bool indexed_;
    MDB_cursor* cursor_ = nullptr;
    uint64_t next_ = 0;  // the record that MDB_NEXT gives
    RecordView current_;
  };

 private:
  struct IndexEntry {
    const char *key, *value;
    uint32_t key_size, value_size;
  };

  explicit LmdbDatabase(const std::string& path);
  void OpenEnvironment(unsigned flags);
  void CheckFileSize() const;
  void BuildIndex();
  // Moves `cursor`; throws Error naming the database.
  RecordView Get(MDB_cursor* cursor, MDB_cursor_op op);

  const std::string path_;
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  MDB_dbi handle_ = 0;
  uint64_t size_ = 0;

  std::mutex mutex_;  // LMDB wants the uses of one transaction serialised
  std::mutex index_mutex_;
  std::vector<IndexEntry> index_;  // written once, under index_mutex_
};

}  // namespace millrace

#endif  // MILLRACE_DATA_LMDB_DATABASE_H_
