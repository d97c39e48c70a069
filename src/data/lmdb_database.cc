#include "data/lmdb_database.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/thread.h"
#include "data/open_once.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline data {
namespace {

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
      throw Error(path, ": is a LevelDB database, expected an LMDB database");
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
  // LMDB forbids opening one file twice in a process: closing one environment would drop the locks
  // of the other.
  static auto* const databases = new OpenOnce<LmdbDatabase>;
  return databases->Open(IdentityOf(status), [&] { return new LmdbDatabase(path); });
}

LmdbDatabase::LmdbDatabase(const std::string& path) : path_(path) {
  const BusErrorGuard guard;  // LMDB reads its own mappings
  try {
    {
      // LMDB trusts the meta pages, so check them first.
      const FileDescriptor file(open((path_ + "/data.mdb").c_str(), O_RDONLY | O_CLOEXEC));
      if (file.get() < 0) throw Error(path_, ": data.mdb: ", ErrnoText(errno));
      ReadMeta(file.get());
    }
    OpenEnvironment(MDB_RDONLY | MDB_NOTLS);
    const int result = mdb_env_get_fd(environment_, &file_);
    if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
    BeginTransaction();
    if (guard.hit()) throw Error(path_, ": data.mdb was truncated while it was opened");
    if (size() == 0) throw Error(path_, ": holds no records");
    try {
      mapping_.emplace(file_, meta_.file_size());
    } catch (const Error& error) {
      throw Error(path_, ": data.mdb ", error.what());
    }
  } catch (...) {
    Close();
    throw;
  }
}

LmdbDatabase::~LmdbDatabase() {
  const BusErrorGuard guard;
  Close();
}

void LmdbDatabase::Close() {
  if (transaction_) mdb_txn_abort(transaction_);
  if (environment_) mdb_env_close(environment_);
}

void LmdbDatabase::OpenEnvironment(unsigned flags) {
  struct stat status;
  if (stat((path_ + "/data.mdb").c_str(), &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  int result = mdb_env_create(&environment_);
  // Databases written by Caffe request a map of 1 TB; the size of the file suffices.
  if (result == 0) result = mdb_env_set_mapsize(environment_, status.st_size);
  if (result == 0) result = mdb_env_open(environment_, path_.c_str(), flags, 0644);
  if (result == 0) return;
  if (environment_) mdb_env_close(environment_);
  environment_ = nullptr;
  // On read-only media no lock file can be created, and no process can write.
  const bool refused = result == EACCES || result == EROFS || result == EPERM;
  if (refused && !(flags & MDB_NOLOCK)) return OpenEnvironment(flags | MDB_NOLOCK);
  if (result == MDB_INVALID) {
    throw Error(path_, ": data.mdb is not an LMDB database, or is truncated");
  }
  throw Error(path_, ": cannot be opened: ", mdb_strerror(result));
}

LmdbMeta LmdbDatabase::ReadMeta(int fd) const {
  LmdbMeta newest;
  uint64_t at = 0;
  for (int i = 0; i < 2; ++i) {
    alignas(uint64_t) char page[LmdbMeta::kBytes];
    const ssize_t got = pread(fd, page, sizeof(page), static_cast<off_t>(at));
    if (got < 0) throw Error(path_, ": data.mdb: ", ErrnoText(errno));
    if (got < static_cast<ssize_t>(sizeof(page))) {
      throw Error(path_, ": data.mdb is not an LMDB database, or is truncated");
    }
    LmdbMeta meta;
    try {
      meta = ParseLmdbMeta({page, sizeof(page)});
    } catch (const Error& error) {
      throw Error(path_, ": ", error.what());
    }
    at = meta.page_size;
    if (i == 0 || meta.transaction > newest.transaction) newest = meta;
  }
  // Writers extend the file before they write a meta page, and the size is read after it.
  struct stat status;
  if (fstat(fd, &status) != 0) throw Error(path_, ": data.mdb: ", ErrnoText(errno));
  if (static_cast<uint64_t>(status.st_size) < newest.file_size()) {
    throw Error(path_, ": data.mdb is truncated: ", status.st_size, " bytes, expected at least ",
                newest.file_size());
  }
  return newest;
}

void LmdbDatabase::BeginTransaction() {
  // Writers may commit between mdb_txn_begin and ReadMeta.
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const int result = mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction_);
    if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
    meta_ = ReadMeta(file_);
    if (meta_.transaction == mdb_txn_id(transaction_)) return;
    mdb_txn_abort(std::exchange(transaction_, nullptr));
  }
  throw Error(path_,
              ": lock.mdb is of another state than data.mdb; if no process uses the "
              "database, remove lock.mdb");
}

void LmdbDatabase::ThrowIfDamaged() const {
  struct stat status;
  if (fstat(file_, &status) != 0) throw Error(path_, ": data.mdb: ", ErrnoText(errno));
  if (static_cast<uint64_t>(status.st_size) < meta_.file_size()) {
    throw Error(path_, ": data.mdb was truncated while it was in use: ", status.st_size,
                " bytes, expected at least ", meta_.file_size());
  }
  if (const auto lost = mapping_->lost()) {
    throw Error(path_, ": data.mdb could not be read at byte ", *lost,
                " while it was in use: its storage fails, or it was truncated for a while");
  }
}

RecordView LmdbDatabase::Next(LmdbWalk* walk) const {
  try {
    const LmdbWalk::Record record = walk->Next();
    return {record.key, record.value, 0};
  } catch (const Error& error) {
    ThrowIfDamaged();  // throws the cause if it is damage
    throw Error(path_, ": cannot be read: ", error.what());
  }
}

void LmdbDatabase::BuildIndex() {
  std::lock_guard lock(index_mutex_);
  if (!index_.empty()) return;
  std::vector<IndexEntry> index;
  index.reserve(size());
  LmdbWalk walk(mapping_->bytes(), meta_);
  for (uint64_t i = 0; i < size(); ++i) {
    if (i % 4096 == 0) InterruptionPoint();
    const RecordView record = Next(&walk);
    index.push_back({record.key.data(), record.value.data(),
                     static_cast<uint32_t>(record.key.size()),
                     static_cast<uint32_t>(record.value.size())});
  }
  index_ = std::move(index);
}

LmdbDatabase::Cursor::Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed)
    : database_(std::move(database)), indexed_(indexed) {
  if (indexed_) database_->BuildIndex();
}

RecordView LmdbDatabase::Cursor::At(uint64_t index) {
  CHECK_LT(index, database_->size());
  if (indexed_) {
    const IndexEntry& entry = database_->index_[index];
    return {{entry.key, entry.key_size}, {entry.value, entry.value_size}, 0};
  }
  if (!walk_ || index + 1 < next_) {
    walk_.emplace(database_->mapping_->bytes(), database_->meta_);
    next_ = 0;
  }
  while (next_ <= index) {
    current_ = database_->Next(&*walk_);
    ++next_;
  }
  return current_;
}

}  // namespace millrace::inline data
