// Writes a new LMDB database from records in the order of their keys. The database grows under a
// temporary name beside its own and is renamed at the end, so that no process ever sees a part of
// it. The same records give the same bytes.
#ifndef MILLRACE_DATA_LMDB_WRITER_H_
#define MILLRACE_DATA_LMDB_WRITER_H_

#include <lmdb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Used by one thread.
class LmdbWriter {
 public:
  // Throws Error if `path` exists or its folder does not.
  explicit LmdbWriter(const std::string& path);
  // Without Commit, leaves no files.
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  // Keys must ascend. Throws Error (disk full, for example).
  void Add(std::string_view key, std::string_view value);
  // Writes and syncs all pending records. Nothing may be added afterwards.
  void Finish();
  // Calls Finish if that was not done, then renames the database.
  void Commit();
  // Removes the database that Commit created.
  void Withdraw();

  const std::string& path() const { return path_; }

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

}  // namespace millrace

#endif  // MILLRACE_DATA_LMDB_WRITER_H_
