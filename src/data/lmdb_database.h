#ifndef MILLRACE_DATA_LMDB_DATABASE_H_
#define MILLRACE_DATA_LMDB_DATABASE_H_

#include <lmdb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/mapping_watch.h"
#include "data/database.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// An LMDB database opened for reading. One environment and one long read transaction per file and
// process keep views of the mapped file valid as long as the database object exists, whatever
// writers do.
//
// The file may be truncated while it is in use: the process goes on (base/files/mapping_watch.h),
// views stay readable, with zeros for missing bytes, and ThrowIfDamaged() reports it. Opening
// checks the two meta pages and the size of the file. LMDB trusts all other pages.

// Records refer to the mapped file. Thread-safe.
class LmdbDatabase : public DataSource, public std::enable_shared_from_this<LmdbDatabase> {
  struct CloseCursor {
    void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
  };
  using CursorHandle = std::unique_ptr<MDB_cursor, CloseCursor>;
  struct Place {  // of a record in the mapped file
    const char *key, *value;
    uint32_t key_size, value_size;
  };

 public:
  // Opens the database in folder `path`, or returns the object if this process has it open already.
  // Throws Error in one line if there is no database, or if it is empty, truncated, of another
  // format, or a LevelDB.
  static std::shared_ptr<LmdbDatabase> Open(const std::string& path);
  // Closes the environment.
  ~LmdbDatabase() override;
  LmdbDatabase(const LmdbDatabase&) = delete;
  LmdbDatabase& operator=(const LmdbDatabase&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
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
    CursorHandle cursor_;        // null: reads the index
    std::vector<Place> places_;  // of the last records that cursor_ returned
    uint64_t next_ = 0;          // number of the record that cursor_ returns next
  };

 private:
  explicit LmdbDatabase(const std::string& path);
  void OpenEnvironment(unsigned flags);
  // Begins the transaction and reads the size of the file that it needs.
  void BeginTransaction();
  void OpenRecords();
  void WatchMapping();
  void Close();
  void BuildIndex();
  CursorHandle OpenCursor() const;
  bool IsMapped(const MDB_val& bytes) const;
  // Appends the places of `count` records: from record 0 on, or from the one after the last that
  // the cursor returned. Throws Error naming the database.
  void Read(MDB_cursor* cursor, bool from_start, uint64_t count, std::vector<Place>* places);
  // Throws Error if `result` is one.
  void Check(int result) const;

  const std::string path_;
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  MDB_dbi records_ = 0;
  mdb_filehandle_t file_ = -1;  // owned by the environment
  uint64_t size_ = 0;
  uint64_t file_bytes_ = 0;  // least size of the file
  std::optional<MappingWatch> mapping_;

  // LMDB forbids that several threads use one transaction at once, also by cursors.
  std::mutex cursor_mutex_;
  std::mutex index_mutex_;
  std::vector<Place> index_;  // written once, under index_mutex_
};

// Writes a new LMDB database. The same records give the same bytes.
class LmdbWriter : public DatabaseWriter {
 public:
  // Throws Error if `path` exists or its folder does not.
  explicit LmdbWriter(const std::string& path);
  // Without Commit, leaves no files.
  ~LmdbWriter() override;

  void Add(std::string_view key, std::string_view value) override;
  void Finish() override;
  void Commit() override;
  void Withdraw() override;
  const std::string& path() const override { return path_; }

 private:
  void Flush();
  int TryFlush();
  void Close();
  void RemoveTemporary();
  [[noreturn]] void Fail(int result) const;

  const std::string path_, temporary_;
  MDB_env* environment_ = nullptr;
  size_t map_bytes_;
  std::vector<std::pair<std::string, std::string>> pending_;
  size_t pending_bytes_ = 0;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_LMDB_DATABASE_H_
