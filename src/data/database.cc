#include "data/database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/files/file.h"
#include "data/leveldb/leveldb_database.h"
#include "data/lmdb_database.h"

namespace millrace::inline data {
namespace {

void SyncFolder(const std::string& path) {
  const int folder = open(path.empty() ? "." : path.c_str(), O_RDONLY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

std::string DatabasePath(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string TemporaryPath(const std::string& path) { return StrCat(path, ".", getpid(), ".tmp"); }

void MakeNewFolder(const std::string& path, const std::string& temporary) {
  if (FileExists(path)) throw Error(path, ": exists already; remove it or name another");
  if (mkdir(temporary.c_str(), 0755) != 0) {
    throw Error(path, ": cannot be created: ", ErrnoText(errno));
  }
}

void RenameFolder(const std::string& temporary, const std::string& path) {
  SyncFolder(temporary);
  // rename replaces an empty folder that has appeared meanwhile, but nothing else.
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    throw Error(path, ": cannot be written: ", ErrnoText(errno));
  }
  SyncFolder(Dirname(path));
}

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
