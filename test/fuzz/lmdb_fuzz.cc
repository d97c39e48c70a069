// Databases with changed bytes, or truncated before they are opened or while they are read: all
// records are read, or the database is rejected with one line.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "data/lmdb_database.h"
#include "data/lmdb_writer.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

// Trees: a single leaf, one with values on overflow pages, and one of two levels.
const std::vector<std::string>& Databases() {
  static const std::vector<std::string> files = [] {
    const MemoryFolder folder;
    std::vector<std::string> made;
    const std::pair<int, size_t> kinds[] = {{3, 20}, {6, 5001}, {40, 300}};
    for (const auto& [records, size] : kinds) {
      LmdbWriter writer(folder / "db");
      for (int i = 0; i < records; ++i) writer.Add(StrCat(1000 + i), std::string(size, 'v'));
      writer.Commit();
      made.push_back(ReadFile(folder / "db/data.mdb"));
      folder.Remove("db");
    }
    return made;
  }();
  return files;
}

// An input selects a database and a way to read it, and lists the bytes to change. So most changes
// affect data that a reader uses.
class Input {
 public:
  explicit Input(const std::string& bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  size_t Byte() { return done() ? 0 : static_cast<unsigned char>(bytes_[at_++]); }
  size_t Number() {
    const size_t high = Byte();
    return high << 8 | Byte();
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

constexpr size_t kPage = 4096, kNoCut = 0xffff;

void Change(Input* input, std::string* file) {
  while (!input->done()) {
    const size_t page = input->Byte() % (file->size() / kPage);
    size_t at = input->Number();
    // The start of the page (header and node offsets), or any byte.
    at = at & 0x8000 ? at % 160 : at % kPage;
    (*file)[page * kPage + at] = static_cast<char>(input->Byte());
  }
}

// The sum keeps the compiler from removing the reads.
uint64_t ReadAll(LmdbDatabase* database, LmdbDatabase::Cursor* cursor) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < database->size(); ++i) {
    const RecordView record = cursor->At(i);
    for (const char byte : record.key) sum += static_cast<unsigned char>(byte);
    for (const char byte : record.value) sum += static_cast<unsigned char>(byte);
  }
  return sum;
}

}  // namespace

std::vector<std::string> Corpus() {
  std::vector<std::string> inputs;
  for (char database = 0; database < 3; ++database) {
    for (char way = 0; way < 4; ++way) {
      const std::string start{database, way};
      inputs.push_back(start + "\xff\xff");                  // unchanged
      inputs.push_back(start + std::string("\x2f\x01", 2));  // truncated
      inputs.push_back(start + "\xff\xff\x02\x80\x0c\x77");  // changes the lower bound of a leaf
      inputs.push_back(start + "\xff\xff\x02\x80\x10\x77\x03\x80\x10\x77\x04\x80\x11\x77");
    }
  }
  return inputs;
}

bool Target(const std::string& bytes) {
  static const MemoryFolder folder;
  static const std::string path = folder / "db", file = path + "/data.mdb";
  Input input(bytes);
  std::string content = Databases()[input.Byte() % Databases().size()];
  const size_t way = input.Byte();
  const bool indexed = way & 1, in_use = way & 2;
  const size_t cut_number = input.Number();
  const size_t cut = cut_number == kNoCut ? content.size() : cut_number % content.size();
  Change(&input, &content);
  MakeDirectories(path);
  folder.Write("db/data.mdb", in_use ? content : content.substr(0, cut));
  try {
    const auto database = LmdbDatabase::Open(path);
    LmdbDatabase::Cursor cursor(database, indexed);
    if (in_use) {
      cursor.At(database->size() / 2);
      if (truncate(file.c_str(), static_cast<off_t>(cut)) != 0) abort();
    }
    const volatile uint64_t sum = ReadAll(database.get(), &cursor);
    (void)sum;
    database->ThrowIfDamaged();
    return true;
  } catch (const Error& error) {
    return IsOneLineNaming(error, {path});
  }
}

}  // namespace millrace::fuzz
