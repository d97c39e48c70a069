#include "data/leveldb/leveldb_writer.h"

#include <glog/logging.h>

#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace millrace::inline data {
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
