#include "data/leveldb/leveldb_database.h"

#include <glog/logging.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/thread.h"
#include "data/open_once.h"

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

LevelDbDatabase::LevelDbDatabase(const std::string& path) : path_(path) {
  leveldb::Options options;
  options.env = &env_;
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

}  // namespace millrace::inline data
