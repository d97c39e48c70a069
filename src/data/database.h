#ifndef MILLRACE_DATA_DATABASE_H_
#define MILLRACE_DATA_DATABASE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/data_source.h"

namespace millrace::inline data {

// Writes a new database of records. The database grows under a temporary name beside its own and is
// renamed at the end, so that no process ever sees a part of it.

// Used by one thread. Destroyed without Commit, it leaves no files. All functions throw Error
// naming the database if it cannot be written, for example if the disk is full.
class DatabaseWriter {
 public:
  virtual ~DatabaseWriter() = default;
  DatabaseWriter(const DatabaseWriter&) = delete;
  DatabaseWriter& operator=(const DatabaseWriter&) = delete;

  // Keys must ascend.
  virtual void Add(std::string_view key, std::string_view value) = 0;
  // Writes and syncs all pending records. Nothing may be added afterwards.
  virtual void Finish() = 0;
  // Calls Finish if that was not done, then renames the database.
  virtual void Commit() = 0;
  // Removes the database that Commit created.
  virtual void Withdraw() = 0;

  virtual const std::string& path() const = 0;

 protected:
  DatabaseWriter() = default;
};

// For implementations.

// `path` without '/' at its end: "db/" names the same folder as "db".
std::string DatabasePath(std::string path);
// The folder beside `path` in which this process writes the database.
std::string TemporaryPath(const std::string& path);
// Makes folder `temporary`. Throws Error naming `path` if it exists, or if its folder does not.
void MakeNewFolder(const std::string& path, const std::string& temporary);
// Renames `temporary` to `path` and syncs both. Throws Error naming `path`.
void RenameFolder(const std::string& temporary, const std::string& path);

// The kinds of databases that Caffe knows, LMDB and LevelDB. Both are folders.

enum class DatabaseKind { kLmdb, kLevelDb };

// The name in net files: "LMDB", "LEVELDB".
const char* NameOf(DatabaseKind kind);
// The kind of a --backend flag: "lmdb" or "leveldb". Throws Error naming the flag.
DatabaseKind ParseDatabaseKind(const std::string& backend);

// What the contents of folder `path` say; nullopt if it is no database. Does not open it.
std::optional<DatabaseKind> FindDatabaseKind(const std::string& path);

// Opens a database for reading, once per process. Throws Error in one line if it is not a sound
// database of that kind. Thread-safe.
std::shared_ptr<DataSource> OpenDatabase(const std::string& path, DatabaseKind kind);
// The same for a database of either kind.
std::shared_ptr<DataSource> OpenDatabase(const std::string& path);

// Creates a database. Throws Error if `path` exists or its folder does not.
std::unique_ptr<DatabaseWriter> CreateDatabase(const std::string& path, DatabaseKind kind);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_DATABASE_H_
