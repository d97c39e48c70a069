#include "data/lmdb_database.h"

#include <glog/logging.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/thread.h"

namespace millrace {
namespace {

// LMDB forbids opening one file twice in a process: closing either would drop
// the other's locks.
struct Registry {
  using Identity = std::pair<dev_t, ino_t>;

  std::mutex mutex;
  std::condition_variable closed;
  std::map<Identity, std::weak_ptr<LmdbDatabase>> open;

  static Registry& Get() {
    static auto* registry = new Registry;  // outlives databases in static objects
    return *registry;
  }
};

struct stat CheckFiles(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    throw Error(path, ": ", ErrnoText(errno), "; expected an LMDB database folder");
  }
  if (!S_ISDIR(status.st_mode)) {
    throw Error(path, ": is not a folder, expected an LMDB database folder (with a data.mdb)");
  }
  const std::string file = path + "/data.mdb";
  if (stat(file.c_str(), &status) != 0) {
    if (FileExists(path + "/CURRENT")) {
      throw Error(path, ": is a LevelDB database, which is not supported; convert it to LMDB");
    }
    throw Error(path, ": is not an LMDB database (it has no data.mdb)");
  }
  if (!S_ISREG(status.st_mode)) throw Error(file, ": is not a regular file");
  if (status.st_size == 0) throw Error(file, ": is an empty file, expected an LMDB database");
  return status;
}

}  // namespace

std::shared_ptr<LmdbDatabase> LmdbDatabase::Open(const std::string& path) {
  const struct stat status = CheckFiles(path);
  const Registry::Identity identity(status.st_dev, status.st_ino);
  Registry& registry = Registry::Get();
  std::unique_lock lock(registry.mutex);
  for (;;) {
    const auto found = registry.open.find(identity);
    if (found == registry.open.end()) break;
    if (auto database = found->second.lock()) return database;
    registry.closed.wait(lock);  // its last user is about to close it
  }
  std::shared_ptr<LmdbDatabase> database(new LmdbDatabase(path), [identity](LmdbDatabase* last) {
    Registry& registry = Registry::Get();
    std::unique_lock lock(registry.mutex);
    delete last;
    registry.open.erase(identity);
    registry.closed.notify_all();
  });
  registry.open[identity] = database;
  return database;
}

LmdbDatabase::LmdbDatabase(const std::string& path) : path_(path) {
  try {
    OpenEnvironment(MDB_RDONLY | MDB_NOTLS);
    CheckFileSize();
    int result = mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction_);
    if (result == 0) result = mdb_dbi_open(transaction_, nullptr, 0, &handle_);
    MDB_stat stat;
    if (result == 0) result = mdb_stat(transaction_, handle_, &stat);
    if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
    size_ = stat.ms_entries;
    if (size_ == 0) throw Error(path_, ": holds no records");
  } catch (...) {
    if (transaction_) mdb_txn_abort(transaction_);
    if (environment_) mdb_env_close(environment_);
    throw;
  }
}

LmdbDatabase::~LmdbDatabase() {
  mdb_txn_abort(transaction_);
  mdb_env_close(environment_);
}

void LmdbDatabase::OpenEnvironment(unsigned flags) {
  struct stat status;
  if (stat((path_ + "/data.mdb").c_str(), &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  int result = mdb_env_create(&environment_);
  // Databases written by Caffe ask for a map of 1 TB; what is there is enough.
  if (result == 0) result = mdb_env_set_mapsize(environment_, status.st_size);
  if (result == 0) result = mdb_env_open(environment_, path_.c_str(), flags, 0644);
  if (result == 0) return;
  if (environment_) mdb_env_close(environment_);
  environment_ = nullptr;
  // No lock file can be made on read-only media; nor can anybody write there.
  const bool refused = result == EACCES || result == EROFS || result == EPERM;
  if (refused && !(flags & MDB_NOLOCK)) return OpenEnvironment(flags | MDB_NOLOCK);
  if (result == MDB_INVALID) {
    throw Error(path_, ": data.mdb is not an LMDB database, or is truncated");
  }
  throw Error(path_, ": cannot be opened: ", mdb_strerror(result));
}

void LmdbDatabase::CheckFileSize() const {
  // A page beyond the end of the file would end the process with SIGBUS.
  MDB_envinfo info;
  MDB_stat stat;
  mdb_filehandle_t file;
  struct stat status;
  int result = mdb_env_info(environment_, &info);
  if (result == 0) result = mdb_env_stat(environment_, &stat);
  if (result == 0) result = mdb_env_get_fd(environment_, &file);
  if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
  if (fstat(file, &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  const uint64_t needed = (uint64_t{info.me_last_pgno} + 1) * stat.ms_psize;
  if (static_cast<uint64_t>(status.st_size) < needed) {
    throw Error(path_, ": data.mdb is truncated: ", status.st_size, " bytes, expected at least ",
                needed);
  }
}

RecordView LmdbDatabase::Get(MDB_cursor* cursor, MDB_cursor_op op) {
  MDB_val key, value;
  std::lock_guard lock(mutex_);
  const int result = mdb_cursor_get(cursor, &key, &value, op);
  if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
  return {{static_cast<const char*>(key.mv_data), key.mv_size},
          {static_cast<const char*>(value.mv_data), value.mv_size},
          0};
}

void LmdbDatabase::BuildIndex() {
  std::lock_guard lock(index_mutex_);
  if (!index_.empty()) return;
  std::vector<IndexEntry> index;
  index.reserve(size_);
  {
    Cursor cursor(std::shared_ptr<LmdbDatabase>(std::shared_ptr<void>(), this), false);
    for (uint64_t i = 0; i < size_; ++i) {
      if (i % 4096 == 0) InterruptionPoint();
      const RecordView record = cursor.At(i);
      index.push_back({record.key.data(), record.value.data(),
                       static_cast<uint32_t>(record.key.size()),
                       static_cast<uint32_t>(record.value.size())});
    }
  }
  index_ = std::move(index);
}

LmdbDatabase::Cursor::Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed)
    : database_(std::move(database)), indexed_(indexed) {
  if (indexed_) {
    database_->BuildIndex();
    return;
  }
  std::lock_guard lock(database_->mutex_);
  const int result = mdb_cursor_open(database_->transaction_, database_->handle_, &cursor_);
  if (result != 0) throw Error(database_->path_, ": cannot be read: ", mdb_strerror(result));
}

LmdbDatabase::Cursor::~Cursor() {
  if (!cursor_) return;
  std::lock_guard lock(database_->mutex_);
  mdb_cursor_close(cursor_);
}

RecordView LmdbDatabase::Cursor::At(uint64_t index) {
  CHECK_LT(index, database_->size_);
  if (indexed_) {
    const IndexEntry& entry = database_->index_[index];
    return {{entry.key, entry.key_size}, {entry.value, entry.value_size}, 0};
  }
  if (index + 1 < next_) next_ = 0;
  while (next_ <= index) {
    current_ = database_->Get(cursor_, next_ == 0 ? MDB_FIRST : MDB_NEXT);
    ++next_;
  }
  return current_;
}

}  // namespace millrace
