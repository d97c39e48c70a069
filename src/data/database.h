// The kinds of databases that Caffe knows, LMDB and LevelDB. Both are folders.
#ifndef MILLRACE_DATA_DATABASE_H_
#define MILLRACE_DATA_DATABASE_H_

#include <memory>
#include <optional>
#include <string>

#include "data/database_writer.h"
#include "millrace/data_source.h"
#include "millrace/export.h"

namespace millrace::inline data {

enum class DatabaseKind { kLmdb, kLevelDb };

// As in net files: "LMDB", "LEVELDB".
const char* NameOf(DatabaseKind kind);
// The kind of a --backend flag: "lmdb" or "leveldb". Throws Error naming the flag.
MILLRACE_API DatabaseKind ParseDatabaseKind(const std::string& backend);

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
