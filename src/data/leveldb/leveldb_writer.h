// Writes a new LevelDB database with the block size of Caffe's.
#ifndef MILLRACE_DATA_LEVELDB_LEVELDB_WRITER_H_
#define MILLRACE_DATA_LEVELDB_LEVELDB_WRITER_H_

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <memory>
#include <string>
#include <string_view>

#include "data/database_writer.h"

namespace millrace::inline data {

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

#endif  // MILLRACE_DATA_LEVELDB_LEVELDB_WRITER_H_
