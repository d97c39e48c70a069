#include "data/lmdb_tree.h"

#include <lmdb.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "data/lmdb_database.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// A database after many changes by LMDB: pages are split, merged, freed and reused.
class ChangedDatabase {
 public:
  ChangedDatabase(const std::string& path, uint64_t seed) : rng_(seed, {1}) {
    EXPECT_EQ(mdb_env_create(&environment_), 0);
    EXPECT_EQ(mdb_env_set_mapsize(environment_, size_t{1} << 30), 0);
    EXPECT_EQ(mdb_env_open(environment_, path.c_str(), MDB_NOSYNC, 0644), 0);
  }
  ~ChangedDatabase() { mdb_env_close(environment_); }

  void Change(int changes, uint64_t longest_value) {
    MDB_txn* transaction = nullptr;
    MDB_dbi handle = 0;
    ASSERT_EQ(mdb_txn_begin(environment_, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &handle), 0);
    for (int i = 0; i < changes; ++i) {
      std::string key(1 + rng_.Below(rng_.Below(8) == 0 ? 511 : 12), '\0');
      for (char& byte : key) byte = static_cast<char>(rng_.Next());
      MDB_val mdb_key{key.size(), key.data()};
      if (rng_.Below(4) == 0 && !records_.empty()) {
        key = records_.lower_bound(key) == records_.end() ? records_.begin()->first
                                                          : records_.lower_bound(key)->first;
        mdb_key = {key.size(), key.data()};
        ASSERT_EQ(mdb_del(transaction, handle, &mdb_key, nullptr), 0);
        records_.erase(key);
        continue;
      }
      std::string value(rng_.Below(longest_value), static_cast<char>(rng_.Next()));
      MDB_val mdb_value{value.size(), value.data()};
      ASSERT_EQ(mdb_put(transaction, handle, &mdb_key, &mdb_value, 0), 0);
      records_[key] = value;
    }
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
  }
  const std::map<std::string, std::string>& records() const { return records_; }

 private:
  Rng rng_;
  MDB_env* environment_ = nullptr;
  std::map<std::string, std::string> records_;
};

void ExpectRecords(const std::string& path, const std::map<std::string, std::string>& records) {
  const auto database = LmdbDatabase::Open(path);
  ASSERT_EQ(database->size(), records.size());
  for (const bool indexed : {false, true}) {
    LmdbDatabase::Cursor cursor(database, indexed);
    uint64_t i = 0;
    for (const auto& [key, value] : records) {
      const RecordView record = cursor.At(i++);
      ASSERT_EQ(record.key, key);
      ASSERT_EQ(record.value, value);
    }
  }
}

TEST(LmdbWalk, GivesWhatLmdbHasStoredWhateverItsSizesAndHistory) {
  for (const uint64_t longest_value : {10, 300, 3000, 30000}) {
    for (const int transactions : {1, 5, 9}) {
      SCOPED_TRACE(StrCat(transactions, " transactions, values below ", longest_value, " bytes"));
      const test::TempDir folder;
      std::map<std::string, std::string> records;
      {
        ChangedDatabase changed(folder.path(), test::Seed() + transactions);
        for (int i = 0; i < transactions; ++i) changed.Change(150, longest_value);
        records = changed.records();
      }
      ExpectRecords(folder.path(), records);
    }
  }
}

}  // namespace
}  // namespace millrace
