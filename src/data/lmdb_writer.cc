#include "data/lmdb_writer.h"

#include <glog/logging.h>
#include <unistd.h>

#include "base/error.h"
#include "base/quoted.h"

namespace millrace::inline data {
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
