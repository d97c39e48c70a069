#ifndef MILLRACE_DATA_LEVELDB_LEVELDB_DATABASE_H_
#define MILLRACE_DATA_LEVELDB_LEVELDB_DATABASE_H_

#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/database.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// A LevelDB database opened for reading, once per file and process, without its lock and without
// writing to it. So many processes may read a database at once, also on read-only media. A process
// that writes the database meanwhile is not noticed. LevelDB does not know how many records it has
// and finds them by key only, so opening one reads all of it once and keeps the keys.

// Thread-safe.
class LevelDbDatabase : public DataSource, public std::enable_shared_from_this<LevelDbDatabase> {
 public:
  // Opens the database in folder `path`, or returns the object if this process has it open already.
  // Reads every block and its checksum (interruptible). Throws Error in one line if there is no
  // database, or if it is empty, truncated or damaged.
  static std::shared_ptr<LevelDbDatabase> Open(const std::string& path);
  ~LevelDbDatabase() override;
  LevelDbDatabase(const LevelDbDatabase&) = delete;
  LevelDbDatabase& operator=(const LevelDbDatabase&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return key_ends_.size(); }
  // Records own their bytes. Their keys refer to the database.
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override;

 private:
  class Reader;

  explicit LevelDbDatabase(const std::string& path);
  void ReadKeys();
  std::string_view key(uint64_t index) const;
  leveldb::ReadOptions read_options() const;
  // Throws Error if `status` is one.
  void Check(const leveldb::Status& status) const;

  const std::string path_;
  const std::unique_ptr<leveldb::Env> env_;  // outlives the database
  std::unique_ptr<leveldb::DB> database_;
  std::string keys_;                // of all records, one after the other
  std::vector<uint64_t> key_ends_;  // of each record, in keys_
};

// Writes a new LevelDB database with the block size of Caffe's.
class LevelDbWriter : public DatabaseWriter {
 public:
  // Throws Error if `path` exists or its folder does not.
  explicit LevelDbWriter(const std::string& path);
  ~LevelDbWriter() override;

  void Add(std::string_view key, std::string_view value) override;
  void Finish() override;
  void Commit() override;
  void Withdraw() override;
  const std::string& path() const override { return path_; }

 private:
  void Flush(bool sync);
  void Check(const leveldb::Status& status) const;

  const std::string path_, temporary_;
  std::unique_ptr<leveldb::DB> database_;
  leveldb::WriteBatch pending_;
  std::string last_key_;
  bool has_records_ = false;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_LEVELDB_LEVELDB_DATABASE_H_
