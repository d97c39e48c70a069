// Reading the records of an LMDB file where they lie: a walk over the pages of the main database in
// format 1 of LMDB 0.9 (its lmdb.h and mdb.c), which never reads outside of the bytes given
// whatever they hold, and also if they change meanwhile. LMDB's own cursors trust their file.
#ifndef MILLRACE_DATA_LMDB_TREE_H_
#define MILLRACE_DATA_LMDB_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

// One of the two states of a database that its first two pages describe.
struct LmdbMeta {
  static constexpr size_t kBytes = 152;  // from the start of its page
  static constexpr uint16_t kMostLevels = 32;

  uint64_t transaction = 0;  // the one that wrote it
  uint32_t page_size = 0;
  uint64_t last_page = 0;  // in use
  uint64_t entries = 0;    // records of the main database
  uint16_t levels = 0;     // of its tree
  uint64_t root = 0;       // page; only with entries

  // The least size of the file.
  uint64_t file_size() const { return (last_page + 1) * page_size; }
};

// `page` has the first kBytes of a meta page, at an even address. Throws Error, without naming the
// file, if that is none or makes no sense.
LmdbMeta ParseLmdbMeta(std::string_view page);

// Gives the records in the order of their keys. Not thread-safe.
class LmdbWalk {
 public:
  // `file` has meta.file_size() bytes, and outlives this object. There are entries.
  LmdbWalk(std::string_view file, const LmdbMeta& meta);

  struct Record {
    std::string_view key, value;  // within the file
  };
  // The next record, the first one at first; called `entries` times at most. Throws Error, without
  // naming the file, if a page on the way is damaged; then it is over.
  Record Next();

 private:
  struct Step {  // of the path from the root
    uint64_t page = 0;
    uint32_t node = 0, nodes = 0;  // the next one to be taken, of so many
  };

  const char* PageAt(uint64_t page) const;
  // Enters `page`, which is to be `level` levels below the root.
  void Enter(uint64_t page, size_t level);
  // The node of this step; `head` bytes of it are within the page.
  const char* NodeAt(const Step& step, size_t head) const;
  Record RecordAt(const Step& step) const;

  const std::string_view file_;
  const LmdbMeta meta_;
  std::vector<Step> path_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_LMDB_TREE_H_
