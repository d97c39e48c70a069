#include "data/leveldb/leveldb_database.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "base/threads/thread.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string OpenError(const std::string& path) {
  return test::ErrorOf([&] { LevelDbDatabase::Open(path); });
}

// `bytes` per record, so that there are several tables and blocks.
void WriteLevelDb(const std::string& path, int records, size_t bytes = 0) {
  LevelDbWriter writer(path);
  Rng rng(test::Seed(), {9});
  for (int i = 0; i < records; ++i) {
    caffe::Datum datum = test::ByteDatum(i);
    std::string noise(bytes, '\0');
    for (char& byte : noise) byte = static_cast<char>(rng.Next());
    datum.mutable_float_data()->Clear();
    writer.Add(test::KeyOf(i), bytes == 0 ? datum.SerializeAsString() : noise);
  }
  writer.Commit();
}

// The contents of all files of a folder, by name.
std::map<std::string, std::string> Contents(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(folder)) {
    contents[entry.path().filename()] = ReadFile(entry.path());
  }
  return contents;
}

// Writes as Caffe does: without compaction at the end, so that the records are in the log.
void WriteAsCaffe(const std::string& path, int records, bool reopen = false) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  ASSERT_TRUE(leveldb::DB::Open(options, path, &opened).ok());
  const std::unique_ptr<leveldb::DB> database(opened);
  for (int i = reopen ? records / 2 : 0; i < records; ++i) {
    const std::string record = test::ByteDatum(i).SerializeAsString();
    ASSERT_TRUE(database->Put(leveldb::WriteOptions(), test::KeyOf(i), record).ok());
  }
}

TEST(LevelDbDatabase, FindsAnyRecordByNumberInOrderOfTheKeys) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 500);
  const auto database = LevelDbDatabase::Open(folder / "db");
  ASSERT_EQ(database->size(), 500u);
  const auto ordered = database->MakeReader(false), random = database->MakeReader(true);
  for (uint64_t i = 0; i < 500; ++i) EXPECT_EQ(test::LabelOf(ordered->At(i)), static_cast<int>(i));
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 300; ++i) {
    const uint64_t index = rng.Below(500);
    EXPECT_EQ(test::LabelOf(ordered->At(index)), static_cast<int>(index));
    EXPECT_EQ(test::LabelOf(random->At(index)), static_cast<int>(index));
    EXPECT_EQ(ordered->At(index).key, test::KeyOf(index));
  }
}

TEST(LevelDbDatabase, KeepsTheBytesOfARecordAsLongAsItsOwner) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 50);
  const auto database = LevelDbDatabase::Open(folder / "db");
  const auto reader = database->MakeReader(false);
  std::vector<RecordView> records;
  for (uint64_t i = 0; i < 50; ++i) records.push_back(reader->At(i));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(test::LabelOf(records[i]), i);
}

TEST(LevelDbDatabase, IsOpenedOncePerFolderAndProcess) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 3);
  fs::create_symlink(folder / "db", folder / "link");
  auto first = LevelDbDatabase::Open(folder / "db");
  EXPECT_EQ(LevelDbDatabase::Open(folder / "link"), first);
  const std::weak_ptr<LevelDbDatabase> watch = first;
  first.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(LevelDbDatabase::Open(folder / "db")->size(), 3u);
}

TEST(LevelDbDatabase, IsReadByManyThreadsAtOnce) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 40);
  ErrorSink errors;
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<Thread>(
          "read",
          [&, t] {
            for (int k = 0; k < 30; ++k) {
              const auto reader = LevelDbDatabase::Open(folder / "db")->MakeReader(t % 2 == 0);
              for (int i = 0; i < 40; i += 1 + k % 3) {
                if (test::LabelOf(reader->At(i)) != i) throw Error("wrong record");
              }
            }
          },
          &errors));
    }
    for (auto& thread : threads) thread->Join();
  }
  EXPECT_NO_THROW(errors.RethrowIfFailed());
}

TEST(LevelDbDatabase, ReadsTheLogAndManyTablesAndChangesNoFile) {
  const test::TempDir folder;
  WriteAsCaffe(folder / "log", 100);
  WriteAsCaffe(folder / "log", 200, true);  // a table, and a log
  WriteLevelDb(folder / "large", 3000, 8000);
  for (const char* name : {"log", "large"}) {
    const auto before = Contents(folder / name);
    {
      const auto database = LevelDbDatabase::Open(folder / name);
      EXPECT_EQ(database->size(), std::string(name) == "log" ? 200u : 3000u);
      const auto reader = database->MakeReader(true);
      for (uint64_t i = 0; i < database->size(); i += 7) reader->At(i);
    }
    EXPECT_EQ(Contents(folder / name), before) << name;
  }
}

TEST(LevelDbDatabase, IsReadableInSeveralProcessesAndWithoutPermissionToWrite) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 30);
  chmod(folder.path().c_str(), 0755);
  chmod((folder / "db").c_str(), 0555);
  for (const auto& entry : fs::directory_iterator(folder / "db")) chmod(entry.path().c_str(), 0444);
  int opened[2], closed[2];
  ASSERT_TRUE(pipe(opened) == 0 && pipe(closed) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(2);  // permissions do not restrict root
    try {
      const auto database = LevelDbDatabase::Open(folder / "db");
      char byte = 'x';
      // Keeps the database open while the parent reads it.
      if (write(opened[1], &byte, 1) != 1 || read(closed[0], &byte, 1) != 1) _exit(3);
      _exit(test::LabelOf(database->MakeReader(true)->At(7)) == 7 ? 0 : 4);
    } catch (const Error&) {
      _exit(1);
    }
  }
  close(opened[1]);
  char byte = 'x';
  EXPECT_EQ(read(opened[0], &byte, 1), 1);  // 0 if the child has ended
  EXPECT_EQ(test::LabelOf(LevelDbDatabase::Open(folder / "db")->MakeReader(true)->At(29)), 29);
  EXPECT_EQ(write(closed[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int end : {opened[0], closed[0], closed[1]}) close(end);
}

TEST(LevelDbDatabase, SaysWhatIsWrongInOneLine) {
  const test::TempDir folder;
  EXPECT_CONTAINS(OpenError(folder / "none"), "No such file or directory; expected a LevelDB");
  test::WriteFile(folder / "file", "x");
  EXPECT_CONTAINS(OpenError(folder / "file"), "is not a folder");
  MakeDirectories(folder / "empty");
  EXPECT_CONTAINS(OpenError(folder / "empty"), "has no CURRENT");
  MakeDirectories(folder / "hollow");
  test::WriteFile(folder / "hollow/CURRENT", "MANIFEST-000002\n");
  EXPECT_CONTAINS(OpenError(folder / "hollow"), folder / "hollow: cannot be read: ");
  test::WriteFile(folder / "hollow/CURRENT", "rubbish");
  EXPECT_CONTAINS(OpenError(folder / "hollow"), "cannot be read: ");
  { LevelDbWriter(folder / "nothing").Commit(); }
  EXPECT_EQ(OpenError(folder / "nothing"), folder / "nothing: holds no records");
}

TEST(LevelDbDatabase, RefusesDamagedTablesOfEveryKind) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 400, 700);
  std::string table;
  for (const auto& entry : fs::directory_iterator(folder / "db")) {
    if (entry.path().extension() == ".ldb") table = entry.path().filename();
  }
  ASSERT_NE(table, "");
  const std::string whole = ReadFile(folder / "db/" + table);
  Rng rng(test::Seed(), {2});
  for (int round = 0; round < 30; ++round) {
    const std::string path = folder / StrCat("damaged", round);
    fs::copy(folder / "db", path, fs::copy_options::recursive);
    std::string bytes = whole;
    if (round == 0) {
      fs::remove(path + "/" + table);
    } else if (round < 10) {
      test::WriteFile(path + "/" + table, bytes.substr(0, rng.Below(bytes.size())));
    } else {
      // In the blocks of records, which have checksums.
      bytes[rng.Below(bytes.size() / 2)] ^= static_cast<char>(1 + rng.Below(255));
      test::WriteFile(path + "/" + table, bytes);
    }
    const std::string error = OpenError(path);
    EXPECT_EQ(error.find(path + ": cannot be read: "), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(LevelDbDatabase, ReportsATruncationWhileInUse) {
  const test::TempDir folder;
  WriteLevelDb(folder / "db", 2000, 1000);
  const auto database = LevelDbDatabase::Open(folder / "db");
  for (const auto& entry : fs::directory_iterator(folder / "db")) {
    if (entry.path().extension() != ".ldb") continue;
    ASSERT_EQ(truncate(entry.path().c_str(), 1000), 0);
  }
  for (const bool random : {false, true}) {
    const auto reader = database->MakeReader(random);
    EXPECT_CONTAINS(test::ErrorOf([&] { reader->At(1500); }), folder / "db: cannot be read: ");
  }
}

TEST(LevelDbWriter, LeavesNothingWithoutCommitAndRefusesBadKeysAndPaths) {
  const test::TempDir folder;
  {
    LevelDbWriter writer(folder / "db");
    writer.Add("a", "x");
    EXPECT_CONTAINS(test::ErrorOf([&] { writer.Add("a", "y"); }), "ascending order");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  WriteLevelDb(folder / "db", 1);
  EXPECT_CONTAINS(test::ErrorOf([&] { LevelDbWriter(folder / "db"); }), "db: exists already");
  EXPECT_CONTAINS(test::ErrorOf([&] { LevelDbWriter(folder / "none/db"); }), "cannot be created");
  LevelDbWriter other(folder / "other");
  other.Add("a", "x");
  other.Commit();
  other.Withdraw();
  EXPECT_FALSE(FileExists(folder / "other"));
}

}  // namespace
}  // namespace millrace
