#include "data/lmdb_database.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/threads/thread.h"
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

// The start of the two first pages of a file, of which each describes a state of the database, in
// format 1 of LMDB 0.9.
struct MetaPage {
  char number[8], unused[2];
  uint16_t flags;
  uint32_t free_space, magic, version;
  uint64_t address, map_bytes;
  struct {
    uint32_t page_size;  // of the first one
    uint16_t flags, levels;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
  } databases[2];  // of free pages and of records
  uint64_t last_page, transaction;
};
static_assert(sizeof(MetaPage) == 152 && std::endian::native == std::endian::little);

constexpr uint16_t kIsMetaPage = 8;
constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint32_t kMinPageBytes = 256, kMaxPageBytes = 32768;

// Checks what LMDB trusts: it divides by the page size, and maps files that lack pages. Throws
// Error without a path.
void CheckMetaPages(int file) {
  MetaPage newest{};
  off_t at = 0;
  for (int i = 0; i < 2; ++i) {
    MetaPage page;
    const ssize_t got = pread(file, &page, sizeof(page), at);
    if (got < 0) throw Error("cannot be read: ", ErrnoText(errno));
    if (got < static_cast<ssize_t>(sizeof(page)) || (page.flags & kIsMetaPage) == 0 ||
        page.magic != kMagic) {
      throw Error("is not an LMDB database, or is truncated");
    }
    if (page.version != kVersion) {
      throw Error("has version ", page.version, " of LMDB's format, expected ", kVersion);
    }
    const uint32_t page_size = page.databases[0].page_size;
    if (!std::has_single_bit(page_size) || page_size < kMinPageBytes || page_size > kMaxPageBytes) {
      throw Error("has a damaged meta page: pages of ", page_size, " bytes");
    }
    at = page_size;
    if (i == 0 || page.transaction > newest.transaction) newest = page;
  }
  // Writers extend the file before they write a meta page, and the size is read after it.
  struct stat status;
  if (fstat(file, &status) != 0) throw Error("cannot be read: ", ErrnoText(errno));
  constexpr int kPageNumberBits = 48;
  if (newest.last_page >> kPageNumberBits != 0) {
    throw Error("is truncated, or its meta page is damaged: its last page is ", newest.last_page);
  }
  const uint64_t needed = (newest.last_page + 1) * newest.databases[0].page_size;
  if (static_cast<uint64_t>(status.st_size) < needed) {
    throw Error("is truncated: ", status.st_size, " bytes, expected at least ", needed);
  }
}

// LMDB calls this where it would abort the process, in the middle of a page that makes no sense. A
// reader holds nothing in LMDB that unwinding would leak.
void ThrowAssertion(MDB_env*, const char* text) { throw Error(text); }

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
    try {
      const FileDescriptor file(open((path_ + "/data.mdb").c_str(), O_RDONLY | O_CLOEXEC));
      if (file.get() < 0) throw Error("cannot be read: ", ErrnoText(errno));
      CheckMetaPages(file.get());
    } catch (const Error& error) {
      throw Error(path_, ": data.mdb ", error.what());
    }
    OpenEnvironment(MDB_RDONLY | MDB_NOTLS);
    Check(mdb_env_get_fd(environment_, &file_));
    BeginTransaction();
    OpenRecords();
    WatchMapping();
    if (guard.hit()) throw Error(path_, ": data.mdb was truncated while it was opened");
  } catch (...) {
    Close();
    throw;
  }
}

LmdbDatabase::~LmdbDatabase() { Close(); }

void LmdbDatabase::Close() {
  const BusErrorGuard guard;
  mapping_.reset();
  if (transaction_) mdb_txn_abort(transaction_);
  if (environment_) mdb_env_close(environment_);
}

void LmdbDatabase::Check(int result) const {
  if (result != 0) throw Error(path_, ": cannot be read: ", mdb_strerror(result));
}

void LmdbDatabase::OpenEnvironment(unsigned flags) {
  struct stat status;
  if (stat((path_ + "/data.mdb").c_str(), &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  int result = mdb_env_create(&environment_);
  // Databases written by Caffe request a map of 1 TB; the size of the file suffices.
  if (result == 0) result = mdb_env_set_mapsize(environment_, status.st_size);
  if (result == 0) result = mdb_env_set_assert(environment_, ThrowAssertion);
  if (result == 0) result = mdb_env_open(environment_, path_.c_str(), flags, 0644);
  if (result == 0) return;
  if (environment_) mdb_env_close(environment_);
  environment_ = nullptr;
  // On read-only media no lock file can be created, and no process can write.
  const bool refused = result == EACCES || result == EROFS || result == EPERM;
  if (refused && !(flags & MDB_NOLOCK)) return OpenEnvironment(flags | MDB_NOLOCK);
  throw Error(path_, ": cannot be opened: ", mdb_strerror(result));
}

void LmdbDatabase::BeginTransaction() {
  // Writers may commit between mdb_txn_begin and mdb_env_info.
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    Check(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction_));
    MDB_envinfo info;
    MDB_stat stat;
    Check(mdb_env_info(environment_, &info));
    Check(mdb_env_stat(environment_, &stat));
    file_bytes_ = (info.me_last_pgno + 1) * stat.ms_psize;
    if (info.me_last_txnid == mdb_txn_id(transaction_)) return;
    mdb_txn_abort(std::exchange(transaction_, nullptr));
  }
  throw Error(path_,
              ": lock.mdb is of another state than data.mdb; if no process uses the "
              "database, remove lock.mdb");
}

void LmdbDatabase::OpenRecords() {
  Check(mdb_dbi_open(transaction_, nullptr, 0, &records_));
  unsigned flags = 0;
  Check(mdb_dbi_flags(transaction_, records_, &flags));
  if (flags & MDB_DUPSORT) {
    throw Error(path_, ": data.mdb may hold several records for one key, which is not supported");
  }
  MDB_stat stat;
  Check(mdb_stat(transaction_, records_, &stat));
  size_ = stat.ms_entries;
  if (size_ == 0) throw Error(path_, ": holds no records");
  constexpr uint64_t kMinRecordBytes = 10;  // the head of a node and its offset
  if (size_ > file_bytes_ / kMinRecordBytes) {
    throw Error(path_, ": data.mdb has a damaged meta page: ", size_, " records in ", file_bytes_,
                " bytes");
  }
}

void LmdbDatabase::WatchMapping() {
  try {
    const CursorHandle cursor = OpenCursor();
    MDB_val key, value;
    const int result = mdb_cursor_get(cursor.get(), &key, &value, MDB_FIRST);
    if (result != 0) throw Error(mdb_strerror(result));
    mapping_.emplace(key.mv_data);
  } catch (const Error& error) {
    throw Error(path_, ": data.mdb cannot be read: ", error.what());
  }
}

void LmdbDatabase::ThrowIfDamaged() const {
  struct stat status;
  if (fstat(file_, &status) != 0) throw Error(path_, ": data.mdb: ", ErrnoText(errno));
  if (static_cast<uint64_t>(status.st_size) < file_bytes_) {
    throw Error(path_, ": data.mdb was truncated while it was in use: ", status.st_size,
                " bytes, expected at least ", file_bytes_);
  }
  if (const auto lost = mapping_->lost()) {
    throw Error(path_, ": data.mdb could not be read at byte ", *lost,
                " while it was in use: its storage fails, or it was truncated for a while");
  }
}

LmdbDatabase::CursorHandle LmdbDatabase::OpenCursor() const {
  MDB_cursor* cursor = nullptr;
  Check(mdb_cursor_open(transaction_, records_, &cursor));
  return CursorHandle(cursor);
}

bool LmdbDatabase::IsMapped(const MDB_val& bytes) const {
  const std::string_view mapped = mapping_->bytes();
  const uint64_t at =
      reinterpret_cast<uintptr_t>(bytes.mv_data) - reinterpret_cast<uintptr_t>(mapped.data());
  return at <= mapped.size() && bytes.mv_size <= mapped.size() - at;
}

void LmdbDatabase::Read(MDB_cursor* cursor, bool from_start, uint64_t count,
                        std::vector<Place>* places) {
  try {
    std::lock_guard lock(cursor_mutex_);
    for (uint64_t i = 0; i < count; ++i) {
      MDB_val key, value;
      const MDB_cursor_op step = from_start && i == 0 ? MDB_FIRST : MDB_NEXT;
      const int result = mdb_cursor_get(cursor, &key, &value, step);
      if (result != 0) throw Error(mdb_strerror(result));
      // No further step: LMDB would read pages of zeros.
      if (mapping_->lost()) throw Error("bytes are missing");
      if (!IsMapped(key) || !IsMapped(value)) throw Error("a record lies outside of the file");
      places->push_back({static_cast<const char*>(key.mv_data),
                         static_cast<const char*>(value.mv_data),
                         static_cast<uint32_t>(key.mv_size), static_cast<uint32_t>(value.mv_size)});
    }
  } catch (const Error& error) {
    ThrowIfDamaged();  // throws the cause if bytes are missing
    throw Error(path_, ": data.mdb cannot be read: ", error.what());
  }
}

void LmdbDatabase::BuildIndex() {
  std::lock_guard lock(index_mutex_);
  if (!index_.empty()) return;
  std::vector<Place> index;
  index.reserve(size());
  const CursorHandle cursor = OpenCursor();
  while (index.size() < size()) {
    constexpr uint64_t kRecords = 4096;  // between two interruption points
    InterruptionPoint();
    Read(cursor.get(), index.empty(), std::min(kRecords, size() - index.size()), &index);
  }
  index_ = std::move(index);
}

LmdbDatabase::Cursor::Cursor(std::shared_ptr<LmdbDatabase> database, bool indexed)
    : database_(std::move(database)) {
  if (indexed) {
    database_->BuildIndex();
  } else {
    cursor_ = database_->OpenCursor();
  }
}

RecordView LmdbDatabase::Cursor::At(uint64_t index) {
  CHECK_LT(index, database_->size());
  const Place* place = nullptr;
  if (cursor_) {
    if (index + places_.size() < next_) next_ = 0;
    while (next_ <= index) {
      constexpr uint64_t kRecords = 16;  // for one lock
      places_.clear();
      database_->Read(cursor_.get(), next_ == 0, std::min(kRecords, database_->size() - next_),
                      &places_);
      next_ += places_.size();
    }
    place = &places_[index + places_.size() - next_];
  } else {
    place = &database_->index_[index];
  }
  return {{place->key, place->key_size}, {place->value, place->value_size}, 0};
}

namespace {

constexpr size_t kFirstMapBytes = size_t{16} << 20;
// Bytes per transaction, whose dirty pages stay in memory.
constexpr size_t kFlushBytes = size_t{8} << 20;

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path)
    : path_(DatabasePath(path)), temporary_(TemporaryPath(path_)), map_bytes_(kFirstMapBytes) {
  MakeNewFolder(path_, temporary_);
  // No other process knows the file yet, so there is no lock, and one sync at the end.
  int result = mdb_env_create(&environment_);
  if (result == 0) result = mdb_env_set_mapsize(environment_, map_bytes_);
  if (result == 0) {
    result = mdb_env_open(environment_, temporary_.c_str(), MDB_NOLOCK | MDB_NOSYNC, 0644);
  }
  if (result != 0) {
    Close();
    RemoveTemporary();
    Fail(result);
  }
}

LmdbWriter::~LmdbWriter() {
  Close();
  RemoveTemporary();
}

void LmdbWriter::Fail(int result) const {
  throw Error(path_, ": cannot be written: ", mdb_strerror(result));
}

void LmdbWriter::Close() {
  if (environment_) mdb_env_close(environment_);
  environment_ = nullptr;
}

void LmdbWriter::RemoveTemporary() {
  unlink((temporary_ + "/data.mdb").c_str());
  rmdir(temporary_.c_str());
}

void LmdbWriter::Add(std::string_view key, std::string_view value) {
  CHECK(environment_) << "nothing can be added after Finish";
  const auto max_bytes = static_cast<size_t>(mdb_env_get_maxkeysize(environment_));
  if (key.size() > max_bytes) {
    throw Error(path_, ": key ", Quoted(key.substr(0, 64)), "... has ", key.size(),
                " bytes, LMDB's keys have at most ", max_bytes);
  }
  pending_.emplace_back(key, value);
  pending_bytes_ += key.size() + value.size();
  if (pending_bytes_ >= kFlushBytes) Flush();
}

int LmdbWriter::TryFlush() {
  MDB_txn* transaction;
  int result = mdb_txn_begin(environment_, nullptr, 0, &transaction);
  if (result != 0) return result;
  MDB_dbi handle;
  result = mdb_dbi_open(transaction, nullptr, 0, &handle);
  for (auto& [key, value] : pending_) {
    if (result != 0) break;
    MDB_val mdb_key{key.size(), key.data()}, mdb_value{value.size(), value.data()};
    result = mdb_put(transaction, handle, &mdb_key, &mdb_value, MDB_APPEND);
  }
  if (result == 0) return mdb_txn_commit(transaction);
  mdb_txn_abort(transaction);
  return result;
}

void LmdbWriter::Flush() {
  int result;
  while ((result = TryFlush()) == MDB_MAP_FULL) {
    map_bytes_ *= 2;
    if (const int resized = mdb_env_set_mapsize(environment_, map_bytes_)) Fail(resized);
  }
  if (result == MDB_KEYEXIST) throw Error(path_, ": keys must be given in ascending order");
  if (result != 0) Fail(result);
  pending_.clear();
  pending_bytes_ = 0;
}

void LmdbWriter::Finish() {
  if (!environment_) return;
  Flush();
  if (const int result = mdb_env_sync(environment_, 1)) Fail(result);
  Close();
}

void LmdbWriter::Commit() {
  Finish();
  RenameFolder(temporary_, path_);
}

void LmdbWriter::Withdraw() {
  unlink((path_ + "/data.mdb").c_str());
  rmdir(path_.c_str());
}

}  // namespace millrace::inline data
