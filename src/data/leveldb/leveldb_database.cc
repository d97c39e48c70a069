#include "data/leveldb/leveldb_database.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <leveldb/helpers/memenv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/threads/thread.h"
#include "data/open_once.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline data {
namespace {

struct stat CheckFiles(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    throw Error(path, ": ", ErrnoText(errno), "; expected a LevelDB database folder");
  }
  if (!S_ISDIR(status.st_mode)) {
    throw Error(path, ": is not a folder, expected a LevelDB database folder (with a CURRENT)");
  }
  if (!FileExists(path + "/CURRENT")) {
    throw Error(path, ": is not a LevelDB database (it has no CURRENT)");
  }
  return status;
}

// A table file, read by pread. LevelDB's own class maps it, and a truncated file would raise a
// signal; here LevelDB gets too few bytes and reports them.
class PreadFile : public leveldb::RandomAccessFile {
 public:
  explicit PreadFile(const std::string& name)
      : name_(name), file_(open(name.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_.get() < 0) status_ = Failed();
  }
  leveldb::Status status() const { return status_; }

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    const ssize_t got = TEMP_FAILURE_RETRY(pread(file_.get(), scratch, n, offset));
    if (got < 0) return Failed();
    *result = leveldb::Slice(scratch, got);
    return leveldb::Status::OK();
  }

 private:
  leveldb::Status Failed() const { return leveldb::Status::IOError(name_, ErrnoText(errno)); }

  const std::string name_;
  const FileDescriptor file_;
  leveldb::Status status_;
};

// LevelDB's environment, except that new files and the lock are in memory: LevelDB has no mode for
// a database that is only read. Opening one takes its lock, replays its log into new files and may
// start to compact it. Here no file of the database is written, renamed or removed. From the first
// background work on, new files are refused, so that LevelDB does not rewrite a large database into
// memory; it then stops compacting and goes on to read. Thread-safe.
class ReadOnlyEnv : public leveldb::EnvWrapper {
 public:
  ReadOnlyEnv() : EnvWrapper(leveldb::NewMemEnv(leveldb::Env::Default())), memory_(target()) {}

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** result) override {
    return EnvOf(name)->NewSequentialFile(name, result);
  }
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** result) override {
    if (memory_->FileExists(name)) return memory_->NewRandomAccessFile(name, result);
    auto file = std::make_unique<PreadFile>(name);
    const leveldb::Status status = file->status();
    *result = status.ok() ? file.release() : nullptr;
    return status;
  }
  leveldb::Status NewWritableFile(const std::string& name,
                                  leveldb::WritableFile** result) override {
    *result = nullptr;
    if (frozen_) return leveldb::Status::NotSupported(name, "the database is only read");
    return memory_->NewWritableFile(name, result);
  }
  bool FileExists(const std::string& name) override { return EnvOf(name)->FileExists(name); }
  leveldb::Status GetChildren(const std::string& folder,
                              std::vector<std::string>* result) override {
    return leveldb::Env::Default()->GetChildren(folder, result);
  }
  void Schedule(void (*function)(void* argument), void* argument) override {
    frozen_ = true;
    EnvWrapper::Schedule(function, argument);
  }

 private:
  leveldb::Env* EnvOf(const std::string& name) const {
    return memory_->FileExists(name) ? memory_.get() : leveldb::Env::Default();
  }

  const std::unique_ptr<leveldb::Env> memory_;
  std::atomic<bool> frozen_{false};  // no new files any more
};

leveldb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

// In order, an iterator moves from record to record; it decompresses each block once. In any order,
// each record is looked up.
class LevelDbDatabase::Reader : public RecordReader {
 public:
  Reader(std::shared_ptr<LevelDbDatabase> database, bool random_access)
      : database_(std::move(database)) {
    if (!random_access) {
      iterator_.reset(database_->database_->NewIterator(database_->read_options()));
    }
  }

  RecordView At(uint64_t index) override {
    CHECK_LT(index, database_->size());
    const std::string_view key = database_->key(index);
    auto value = std::make_shared<std::string>();
    if (iterator_) {
      MoveTo(index);
      value->assign(iterator_->value().data(), iterator_->value().size());
    } else {
      database_->Check(
          database_->database_->Get(database_->read_options(), SliceOf(key), value.get()));
    }
    return {key, *value, 0, value};
  }

 private:
  void MoveTo(uint64_t index) {
    if (iterator_->Valid() && index == at_ + 1) {
      iterator_->Next();
    } else if (!iterator_->Valid() || index != at_) {
      iterator_->Seek(SliceOf(database_->key(index)));
    }
    at_ = index;
    database_->Check(iterator_->status());
    if (!iterator_->Valid() || iterator_->key() != SliceOf(database_->key(index))) {
      throw Error(database_->path_, ": cannot be read: record ", index, " is missing");
    }
  }

  const std::shared_ptr<LevelDbDatabase> database_;
  std::unique_ptr<leveldb::Iterator> iterator_;
  uint64_t at_ = 0;  // of iterator_
};

std::shared_ptr<LevelDbDatabase> LevelDbDatabase::Open(const std::string& path) {
  const struct stat status = CheckFiles(path);
  static auto* const databases = new OpenOnce<LevelDbDatabase>;
  return databases->Open(IdentityOf(status), [&] { return new LevelDbDatabase(path); });
}

LevelDbDatabase::LevelDbDatabase(const std::string& path)
    : path_(path), env_(std::make_unique<ReadOnlyEnv>()) {
  leveldb::Options options;
  options.env = env_.get();
  options.paranoid_checks = true;
  options.max_open_files = 256;
  // The log of a database that Caffe wrote may hold all of it. It becomes one table in memory.
  options.write_buffer_size = size_t{256} << 20;
  leveldb::DB* database = nullptr;
  Check(leveldb::DB::Open(options, path, &database));
  database_.reset(database);
  ReadKeys();
}

LevelDbDatabase::~LevelDbDatabase() = default;

leveldb::ReadOptions LevelDbDatabase::read_options() const {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  return options;
}

void LevelDbDatabase::Check(const leveldb::Status& status) const {
  if (!status.ok()) throw Error(path_, ": cannot be read: ", status.ToString());
}

void LevelDbDatabase::ReadKeys() {
  const std::unique_ptr<leveldb::Iterator> iterator(database_->NewIterator(read_options()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (key_ends_.size() % 4096 == 0) InterruptionPoint();
    keys_.append(iterator->key().data(), iterator->key().size());
    key_ends_.push_back(keys_.size());
  }
  Check(iterator->status());
  if (key_ends_.empty()) throw Error(path_, ": holds no records");
}

std::string_view LevelDbDatabase::key(uint64_t index) const {
  const uint64_t begin = index == 0 ? 0 : key_ends_[index - 1];
  return std::string_view(keys_).substr(begin, key_ends_[index] - begin);
}

std::unique_ptr<RecordReader> LevelDbDatabase::MakeReader(bool random_access) {
  return std::make_unique<Reader>(shared_from_this(), random_access);
}

namespace {

constexpr size_t kFlushBytes = size_t{8} << 20;  // per write

void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

LevelDbWriter::LevelDbWriter(const std::string& path)
    : path_(DatabasePath(path)), temporary_(TemporaryPath(path_)) {
  MakeNewFolder(path_, temporary_);
  leveldb::Options options;
  options.create_if_missing = true;
  options.block_size = 65536;
  options.write_buffer_size = size_t{64} << 20;
  options.max_open_files = 100;
  leveldb::DB* database = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, temporary_, &database);
  database_.reset(database);
  if (!status.ok()) RemoveFolder(temporary_);
  Check(status);
}

LevelDbWriter::~LevelDbWriter() {
  database_.reset();
  RemoveFolder(temporary_);
}

void LevelDbWriter::Check(const leveldb::Status& status) const {
  if (!status.ok()) throw Error(path_, ": cannot be written: ", status.ToString());
}

void LevelDbWriter::Add(std::string_view key, std::string_view value) {
  CHECK(database_) << "nothing can be added after Finish";
  if (has_records_ && key <= last_key_) {
    throw Error(path_, ": keys must be given in ascending order");
  }
  last_key_ = key;
  has_records_ = true;
  pending_.Put({key.data(), key.size()}, {value.data(), value.size()});
  if (pending_.ApproximateSize() >= kFlushBytes) Flush(false);
}

void LevelDbWriter::Flush(bool sync) {
  leveldb::WriteOptions options;
  options.sync = sync;
  Check(database_->Write(options, &pending_));
  pending_.Clear();
}

void LevelDbWriter::Finish() {
  if (!database_) return;
  Flush(true);
  // A range beyond all records: this writes what is in memory to a table, so that nothing remains
  // in the log, and compacts nothing.
  const std::string beyond = last_key_ + '\xff';
  const leveldb::Slice begin(beyond);
  database_->CompactRange(&begin, nullptr);
  database_.reset();
}

void LevelDbWriter::Commit() {
  Finish();
  RenameFolder(temporary_, path_);
}

void LevelDbWriter::Withdraw() { RemoveFolder(path_); }

}  // namespace millrace::inline data
