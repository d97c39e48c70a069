#include "data/lmdb_database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/files/file.h"
#include "base/rng.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::string LmdbDatabaseOpenError(const std::string& path) {
  return test::ErrorOf([&] { LmdbDatabase::Open(path); });
}

// Overwrites every record of the database twice, in another process.
bool OverwriteFromOutside(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    MDB_env* environment;
    int failures = mdb_env_create(&environment);
    failures |= mdb_env_open(environment, path.c_str(), 0, 0644);
    for (int round = 0; round < 2 && failures == 0; ++round) {
      MDB_txn* transaction;
      MDB_dbi handle;
      failures |= mdb_txn_begin(environment, nullptr, 0, &transaction);
      failures |= mdb_dbi_open(transaction, nullptr, 0, &handle);
      for (int i = 0; i < 20; ++i) {
        std::string key = test::KeyOf(i), value(100, '!');
        MDB_val mdb_key{key.size(), key.data()}, mdb_value{value.size(), value.data()};
        failures |= mdb_put(transaction, handle, &mdb_key, &mdb_value, 0);
      }
      failures |= mdb_txn_commit(transaction);
    }
    _exit(failures == 0 ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(LmdbDatabase, GivesRecordsInTheOrderOfTheirKeys) {
  const test::TempDir folder;
  LmdbWriter writer(folder / "db");
  for (const char* key : {"a", "ab", "b", "c"}) writer.Add(key, std::string("value of ") + key);
  writer.Commit();
  const auto database = LmdbDatabase::Open(folder / "db");
  ASSERT_EQ(database->size(), 4u);
  for (bool indexed : {false, true}) {
    LmdbDatabase::Cursor cursor(database, indexed);
    EXPECT_EQ(cursor.At(0).key, "a");
    EXPECT_EQ(cursor.At(1).value, "value of ab");
    EXPECT_EQ(cursor.At(1).key, "ab");
    EXPECT_EQ(cursor.At(3).key, "c");
    EXPECT_EQ(cursor.At(2).key, "b");
  }
}

TEST(LmdbDatabase, FindsAnyRecordByNumberWithAndWithoutAnIndex) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 500);
  const auto database = LmdbDatabase::Open(folder / "db");
  LmdbDatabase::Cursor sequential(database, false), indexed(database, true);
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 300; ++i) {
    const uint64_t index = rng.Below(500);
    EXPECT_EQ(test::LabelOf(sequential.At(index)), static_cast<int>(index));
    EXPECT_EQ(test::LabelOf(indexed.At(index)), static_cast<int>(index));
    EXPECT_EQ(sequential.At(index).key, test::KeyOf(index));
    EXPECT_EQ(indexed.At(index).key, test::KeyOf(index));
  }
}

TEST(LmdbDatabase, IsOpenedOncePerFileAndProcessWhateverThePath) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 3);
  std::filesystem::create_symlink(folder / "db", folder / "link");
  auto first = LmdbDatabase::Open(folder / "db");
  EXPECT_EQ(LmdbDatabase::Open(folder / "db"), first);
  EXPECT_EQ(LmdbDatabase::Open(folder.path() + "/./db/"), first);
  EXPECT_EQ(LmdbDatabase::Open(folder / "link"), first);
  const std::weak_ptr<LmdbDatabase> watch = first;
  first.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(LmdbDatabase::Open(folder / "db")->size(), 3u);
}

TEST(LmdbDatabase, CanBeOpenedAndClosedByManyThreadsAtOnce) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 3);
  ErrorSink errors;
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(std::make_unique<Thread>(
          "open",
          [&] {
            for (int k = 0; k < 100; ++k) {
              LmdbDatabase::Cursor cursor(LmdbDatabase::Open(folder / "db"), k % 2 == 0);
              if (test::LabelOf(cursor.At(2)) != 2) throw Error("wrong record");
            }
          },
          &errors));
    }
    for (auto& thread : threads) thread->Join();
  }
  EXPECT_NO_THROW(errors.RethrowIfFailed());
}

TEST(LmdbDatabase, KeepsShowingWhatItWasOpenedWithWhileAnotherProcessWrites) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 20);
  const auto database = LmdbDatabase::Open(folder / "db");
  LmdbDatabase::Cursor cursor(database, true);
  const RecordView before = cursor.At(7);
  ASSERT_TRUE(OverwriteFromOutside(folder / "db"));
  EXPECT_EQ(test::LabelOf(before), 7);
  LmdbDatabase::Cursor fresh(database, false);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(test::LabelOf(fresh.At(i)), i);
}

TEST(LmdbDatabase, IsReadableWhereNoLockFileCanBeMade) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 3);
  chmod(folder.path().c_str(), 0755);
  chmod((folder / "db").c_str(), 0555);
  chmod((folder / "db/data.mdb").c_str(), 0444);
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);  // permissions do not restrict root
  uint64_t size = 0;
  try {
    size = LmdbDatabase::Open(folder / "db")->size();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_EQ(size, 3u);
  EXPECT_FALSE(FileExists(folder / "db/lock.mdb"));
  chmod((folder / "db").c_str(), 0755);
}

TEST(LmdbDatabase, SaysWhatIsWrongWithAPathThatIsNoDatabase) {
  const test::TempDir folder;
  EXPECT_EQ(LmdbDatabaseOpenError(folder / "missing"),
            folder / "missing" + ": No such file or directory; expected an LMDB database folder");
  test::WriteFile(folder / "file", "text");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "file"), "is not a folder");
  MakeDirectories(folder / "empty");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "empty"), "has no data.mdb");
  MakeDirectories(folder / "leveldb");
  test::WriteFile(folder / "leveldb/CURRENT", "MANIFEST-000002\n");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "leveldb"), "is a LevelDB database");
  MakeDirectories(folder / "hollow");
  test::WriteFile(folder / "hollow/data.mdb", "");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "hollow"), "is an empty file");
  MakeDirectories(folder / "nested/data.mdb");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "nested"), "is not a regular file");
  for (size_t size : {1, 100, 4096, 20000}) {
    const std::string path = folder / StrCat("junk", size);
    MakeDirectories(path);
    test::WriteFile(path + "/data.mdb", std::string(size, 'x'));
    EXPECT_CONTAINS(LmdbDatabaseOpenError(path), "is not an LMDB database, or is truncated");
  }
}

TEST(LmdbDatabase, RefusesADatabaseWithoutRecords) {
  const test::TempDir folder;
  LmdbWriter(folder / "db").Commit();
  EXPECT_EQ(LmdbDatabaseOpenError(folder / "db"), folder / "db" + ": holds no records");
}

TEST(LmdbDatabase, RefusesATruncatedFileWhereverItIsCut) {
  const test::TempDir folder;
  // Values of more than a page, so that both leaf and overflow pages are truncated.
  test::WriteRawDb(folder / "db", std::vector<std::string>(10, std::string(5000, 'v')));
  const std::string file = folder / "db/data.mdb";
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file));
  for (int64_t cut = size - 1; cut > 0; cut = cut % 2048 ? cut / 2048 * 2048 : cut - 1) {
    ASSERT_EQ(truncate(file.c_str(), cut), 0);
    EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "db"), "truncated") << cut;
  }
}

TEST(LmdbDatabase, ReportsDamagedPagesInsteadOfReadingThem) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 3);
  // Flags of the only leaf page. It is page 2 or 3 of the file.
  std::fstream file(folder / "db/data.mdb", std::ios::in | std::ios::out | std::ios::binary);
  for (int page = 2; page < 4; ++page) {
    file.seekp(page * 4096 + 10);
    file.write("\x40\x00", 2);
  }
  file.close();
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "db"),
                  folder / "db" + ": data.mdb cannot be read: MDB_CORRUPTED");
}

TEST(LmdbDatabase, ReportsARecordThatLiesOutsideOfTheFile) {
  const test::TempDir folder;
  test::WriteRawDb(folder / "db", std::vector<std::string>(3, std::string(5000, 'v')));
  const std::string file = folder / "db/data.mdb";
  std::string bytes = ReadFile(file);
  constexpr size_t kNodeHead = 8;  // before a key; begins with the size of the value
  bytes.replace(bytes.rfind(test::KeyOf(1)) - kNodeHead, 4, "\xff\xff\xff\xff");
  test::WriteFile(file, bytes);
  for (const bool indexed : {false, true}) {
    const auto database = LmdbDatabase::Open(folder / "db");
    EXPECT_EQ(test::ErrorOf([&] { LmdbDatabase::Cursor(database, indexed).At(1); }),
              folder / "db" + ": data.mdb cannot be read: a record lies outside of the file");
  }
}

// As when a database was replaced, but a process still uses the one before, and its lock file.
TEST(LmdbDatabase, RefusesTheLockFileOfAnotherDatabase) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 20);
  test::WriteLabels(folder / "other", 20);
  ASSERT_TRUE(OverwriteFromOutside(folder / "other"));
  int opened[2], closed[2];
  ASSERT_TRUE(pipe(opened) == 0 && pipe(closed) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto database = LmdbDatabase::Open(folder / "db");
    char byte = 'x';
    _exit(write(opened[1], &byte, 1) == 1 && read(closed[0], &byte, 1) == 1 ? 0 : 1);
  }
  close(opened[1]);
  char byte = 'x';
  EXPECT_EQ(read(opened[0], &byte, 1), 1);  // 0 if the child has ended
  std::filesystem::rename(folder / "other/data.mdb", folder / "db/data.mdb");
  EXPECT_CONTAINS(LmdbDatabaseOpenError(folder / "db"),
                  "lock.mdb is of another state than data.mdb");
  EXPECT_EQ(write(closed[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int end : {opened[0], closed[0], closed[1]}) close(end);
}

TEST(LmdbDatabase, ReportsAMetaPageThatMakesNoSense) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 3);
  const std::string whole = ReadFile(folder / "db/data.mdb");
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string damaged = whole;
    for (const size_t page : {0, 4096}) damaged.replace(page + at, bytes.size(), bytes);
    test::WriteFile(folder / "db/data.mdb", damaged);
    return LmdbDatabaseOpenError(folder / "db");
  };
  EXPECT_CONTAINS(with(20, std::string("\x07\0\0\0", 4)), "has version 7 of LMDB's format");
  // LMDB divides by the page size.
  EXPECT_CONTAINS(with(40, std::string(4, '\0')), "pages of 0 bytes");
  EXPECT_CONTAINS(with(44 + 48, std::string("\x04\0", 2)), "several records for one key");
  const std::string one_level("\x01\0", 2), pages(24, '\0'), entries(8, '\x7f');
  EXPECT_CONTAINS(with(46 + 48, one_level + pages + entries), " records in ");
  EXPECT_CONTAINS(with(136, std::string(8, '\x7f')), "truncated");
}

// ---- Changes to a file in use ----

// Records of several pages, so that leaf and overflow pages alternate throughout the file.
class LmdbDatabaseInUse : public testing::Test {
 protected:
  LmdbDatabaseInUse() {
    test::WriteRawDb(path_, std::vector<std::string>(kRecords, std::string(5000, 'v')));
    database_ = LmdbDatabase::Open(path_);
  }
  void Truncate(int64_t size) { ASSERT_EQ(truncate(file_.c_str(), size), 0); }
  int64_t size() const { return static_cast<int64_t>(std::filesystem::file_size(file_)); }
  // Reads every byte of all records and checks the sum.
  void ReadAll(LmdbDatabase::Cursor* cursor) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < kRecords; ++i) {
      for (const char byte : cursor->At(i).value) sum += static_cast<unsigned char>(byte);
    }
    database_->ThrowIfDamaged();
    EXPECT_EQ(sum, kRecords * 5000 * 'v');
  }

  static constexpr uint64_t kRecords = 40;
  const test::TempDir folder_;
  const std::string path_ = folder_ / "db", file_ = path_ + "/data.mdb";
  std::shared_ptr<LmdbDatabase> database_;
};

TEST_F(LmdbDatabaseInUse, SaysThatItWasTruncatedWhereverItIsCut) {
  const std::string whole = ReadFile(file_);
  const auto needed = static_cast<int64_t>(whole.size());
  for (const int64_t cut : {needed - 1, needed / 2 + 100, int64_t{4096}, int64_t{0}}) {
    for (const bool indexed : {false, true}) {
      database_ = LmdbDatabase::Open(path_);
      LmdbDatabase::Cursor cursor(database_, indexed);
      ReadAll(&cursor);
      Truncate(cut);
      EXPECT_EQ(test::ErrorOf([&] { ReadAll(&cursor); }),
                StrCat(path_, ": data.mdb was truncated while it was in use: ", cut,
                       " bytes, expected at least ", needed));
      Truncate(0);
      std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary) << whole;
      database_.reset();
    }
  }
}

// LMDB's cursor then meets pages of zeros, and would end the process by an assertion.
TEST(LmdbDatabase, SaysThatItWasTruncatedWhereverACursorStands) {
  const test::TempDir folder;
  const std::string path = folder / "db", file = path + "/data.mdb";
  constexpr uint64_t kRecords = 1200;  // a tree of three levels
  test::WriteRawDb(path, std::vector<std::string>(kRecords, std::string(600, 'v')));
  const std::string whole = ReadFile(file);
  Rng rng(test::Seed(), {2});
  for (int round = 0; round < 300; ++round) {
    const auto database = LmdbDatabase::Open(path);
    LmdbDatabase::Cursor cursor(database, false);
    cursor.At(rng.Below(kRecords));
    const uint64_t cut =
        rng.Below(whole.size()) & (round % 2 == 0 ? ~uint64_t{4095} : ~uint64_t{0});
    ASSERT_EQ(truncate(file.c_str(), static_cast<off_t>(cut)), 0);
    EXPECT_EQ(test::ErrorOf([&] {
                for (uint64_t i = 0; i < kRecords; ++i) cursor.At(i);
                database->ThrowIfDamaged();
              }),
              StrCat(path, ": data.mdb was truncated while it was in use: ", cut,
                     " bytes, expected at least ", whole.size()))
        << round;
    // The database is closed at the end of the round, then written anew.
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << whole;
  }
}

TEST_F(LmdbDatabaseInUse, RemembersThatBytesWereMissingWhenTheFileIsAsLongAgain) {
  const RecordView record = LmdbDatabase::Cursor(database_, false).At(kRecords - 1);
  const int64_t whole = size();
  Truncate(8192);
  EXPECT_EQ(record.value[0], 0);
  Truncate(whole);
  EXPECT_CONTAINS(test::ErrorOf([&] { database_->ThrowIfDamaged(); }),
                  path_ + ": data.mdb could not be read at byte ");
}

TEST_F(LmdbDatabaseInUse, CanBeClosedWhenItsLockFileWasTruncated) {
  ASSERT_EQ(truncate((path_ + "/lock.mdb").c_str(), 0), 0);
  database_.reset();
  EXPECT_EQ(LmdbDatabase::Open(path_)->size(), kRecords);
}

TEST_F(LmdbDatabaseInUse, StaysAsItWasOpenedForASecondUserOfTheFile) {
  Truncate(4096);
  EXPECT_CONTAINS(test::ErrorOf([&] { LmdbDatabase::Open(path_)->ThrowIfDamaged(); }),
                  "was truncated while it was in use: 4096 bytes");
}

TEST(LmdbWriter, NamesAKeyThatIsTooLong) {
  const test::TempDir folder;
  LmdbWriter writer(folder / "db");
  EXPECT_EQ(test::ErrorOf([&] { writer.Add(std::string(512, 'k'), ""); }),
            folder / "db: key '" + std::string(64, 'k') +
                "'... has 512 bytes, LMDB's keys have at most 511");
}

TEST(LmdbWriter, GivesTheSameBytesForTheSameRecords) {
  const test::TempDir folder;
  // More than the initial map size and than one transaction.
  for (const char* name : {"one", "two"}) {
    LmdbWriter writer(folder / name);
    for (int i = 0; i < 4000; ++i) {
      writer.Add(test::KeyOf(i), std::string(10000 + i % 7, static_cast<char>(i)));
    }
    writer.Commit();
  }
  EXPECT_EQ(LmdbDatabase::Open(folder / "one")->size(), 4000u);
  EXPECT_TRUE(ReadFile(folder / "one/data.mdb") == ReadFile(folder / "two/data.mdb"));
}

TEST(LmdbWriter, LeavesNothingBehindWithoutCommit) {
  const test::TempDir folder;
  { LmdbWriter(folder / "db").Add("a", "b"); }
  {
    LmdbWriter writer(folder / "db");
    writer.Add("a", "b");
    writer.Finish();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LmdbWriter, RefusesWhatExistsAndWhereNothingCanBeMade) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 1);
  EXPECT_CONTAINS(test::ErrorOf([&] { LmdbWriter(folder / "db"); }), "exists already");
  EXPECT_CONTAINS(test::ErrorOf([&] { LmdbWriter(folder / "db/"); }), "exists already");
  EXPECT_CONTAINS(test::ErrorOf([&] { LmdbWriter(folder / "none/db"); }),
                  "cannot be created: No such file");
}

TEST(LmdbWriter, RefusesKeysOutOfOrder) {
  const test::TempDir folder;
  LmdbWriter writer(folder / "db");
  writer.Add("b", "1");
  writer.Add("a", "2");
  EXPECT_CONTAINS(test::ErrorOf([&] { writer.Commit(); }), "ascending order");
}

}  // namespace
}  // namespace millrace
