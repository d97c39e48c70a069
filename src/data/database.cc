#include "data/database.h"

#include "base/error.h"
#include "base/file.h"
#include "data/leveldb/leveldb_database.h"
#include "data/leveldb/leveldb_writer.h"
#include "data/lmdb_database.h"
#include "data/lmdb_writer.h"

namespace millrace::inline data {

const char* NameOf(DatabaseKind kind) { return kind == DatabaseKind::kLmdb ? "LMDB" : "LEVELDB"; }

DatabaseKind ParseDatabaseKind(const std::string& backend) {
  if (backend == "lmdb") return DatabaseKind::kLmdb;
  if (backend == "leveldb") return DatabaseKind::kLevelDb;
  throw Error("--backend=", backend, ": expected lmdb or leveldb");
}

std::optional<DatabaseKind> FindDatabaseKind(const std::string& path) {
  if (FileExists(path + "/data.mdb")) return DatabaseKind::kLmdb;
  if (FileExists(path + "/CURRENT")) return DatabaseKind::kLevelDb;
  return std::nullopt;
}

std::shared_ptr<DataSource> OpenDatabase(const std::string& path, DatabaseKind kind) {
  if (kind == DatabaseKind::kLevelDb) return LevelDbDatabase::Open(path);
  return LmdbDatabase::Open(path);
}

std::shared_ptr<DataSource> OpenDatabase(const std::string& path) {
  if (const auto kind = FindDatabaseKind(path)) return OpenDatabase(path, *kind);
  throw Error(
      path, FileExists(path) ? ": holds no database" : ": No such file or directory",
      "; expected the folder of an LMDB (with a data.mdb) or of a LevelDB (with a CURRENT)");
}

std::unique_ptr<DatabaseWriter> CreateDatabase(const std::string& path, DatabaseKind kind) {
  if (kind == DatabaseKind::kLevelDb) return std::make_unique<LevelDbWriter>(path);
  return std::make_unique<LmdbWriter>(path);
}

}  // namespace millrace::inline data
