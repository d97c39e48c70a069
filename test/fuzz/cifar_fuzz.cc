// Directories of CIFAR binary batches: the converter writes both databases with all records, or
// fails with a one-line error and writes neither.
#include <array>

#include "data/convert.h"
#include "data/lmdb_database.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr size_t kFiles = 6;
constexpr size_t kRecordBytes = 3073;
const char* const kNames[kFiles] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

// Files of one record each. An input is their concatenation. Excess bytes lengthen the last file;
// missing bytes shorten the last file and then those before it.
std::array<std::string, kFiles> FilesOf(const std::string& input) {
  std::array<std::string, kFiles> files;
  for (size_t i = 0; i < kFiles; ++i) {
    const size_t from = std::min(i * kRecordBytes, input.size());
    files[i] = input.substr(from, i + 1 < kFiles ? kRecordBytes : std::string::npos);
  }
  return files;
}

bool IsGood(const std::string& file) {
  return file.size() == kRecordBytes && static_cast<uint8_t>(file[0]) < 10;
}

bool CheckDatabases(const MemoryFolder& folder) {
  const bool sizes = LmdbDatabase::Open(folder / "cifar10_train_lmdb")->size() == kFiles - 1 &&
                     LmdbDatabase::Open(folder / "cifar10_test_lmdb")->size() == 1;
  folder.Remove("cifar10_train_lmdb");
  folder.Remove("cifar10_test_lmdb");
  return sizes;
}

}  // namespace

std::vector<std::string> Corpus() {
  std::string good, last;
  for (size_t i = 0; i < kFiles; ++i) {
    good += std::string(1, static_cast<char>(i)) + std::string(kRecordBytes - 1, 'p');
    last += std::string(kRecordBytes, '\x09');
  }
  return {good, last};
}

bool Target(const std::string& input) {
  static const MemoryFolder in, out;
  const std::array<std::string, kFiles> files = FilesOf(input);
  std::vector<std::string> paths;
  for (size_t i = 0; i < kFiles; ++i) {
    in.Write(kNames[i], files[i]);
    paths.push_back(in / kNames[i]);
  }
  const bool good = std::all_of(files.begin(), files.end(), IsGood);
  try {
    ConvertCifar(in.path(), out.path(), 1);
    return good && CheckDatabases(out);
  } catch (const Error& error) {
    return !good && IsOneLineNaming(error, paths) && out.entries() == 0;
  }
}

}  // namespace millrace::fuzz
