// Writes a new LMDB database. The same records give the same bytes.
#ifndef MILLRACE_DATA_LMDB_WRITER_H_
#define MILLRACE_DATA_LMDB_WRITER_H_

#include <lmdb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/database_writer.h"

namespace millrace::inline data {

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

#endif  // MILLRACE_DATA_LMDB_WRITER_H_
