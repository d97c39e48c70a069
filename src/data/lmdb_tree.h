// Reads the records of an LMDB file in place: walks over the pages of the main database in format 1
// of LMDB 0.9 (its lmdb.h and mdb.c). Never reads outside the bytes given, whatever they hold, even
// if they change meanwhile. LMDB's own cursors trust the file.
#ifndef MILLRACE_DATA_LMDB_TREE_H_
#define MILLRACE_DATA_LMDB_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::inline data {

// One of the two states of a database that its first two pages (meta pages) describe.
struct LmdbMeta {
  static constexpr size_t kBytes = 152;  // from the start of its page
  static constexpr uint16_t kMostLevels = 32;

  uint64_t transaction = 0;  // the one that wrote this state
  uint32_t page_size = 0;
  uint64_t last_page = 0;  // in use
  uint64_t entries = 0;    // records of the main database
  uint16_t levels = 0;     // of the main database's tree
  uint64_t root = 0;       // page number; valid only if entries > 0

  // The minimum size of the file.
  uint64_t file_size() const { return (last_page + 1) * page_size; }
};

// `page` has the first kBytes of a meta page, at an even address. Throws Error, without naming the
// file, if it is not a meta page or has impossible values.
LmdbMeta ParseLmdbMeta(std::string_view page);

// Returns the records in the order of their keys. Not thread-safe.
class LmdbWalk {
 public:
  // `file` has at least meta.file_size() bytes and outlives this object. meta.entries > 0.
  LmdbWalk(std::string_view file, const LmdbMeta& meta);

  struct Record {
    std::string_view key, value;  // within the file
  };
  // Returns the next record, beginning with the first. Called at most `entries` times. Throws
  // Error, without naming the file, if a page on the path is damaged; the walk has then ended.
  Record Next();

 private:
  struct Step {  // of the path from the root
    uint64_t page = 0;
    uint32_t node = 0, nodes = 0;  // the next node to take, and the number of nodes
  };

  const char* PageAt(uint64_t page) const;
  // Enters `page`, which must be `level` levels below the root.
  void Enter(uint64_t page, size_t level);
  // The node of `step`, of which `head` bytes are within the page.
  const char* NodeAt(const Step& step, size_t head) const;
  Record RecordAt(const Step& step) const;

  const std::string_view file_;
  const LmdbMeta meta_;
  std::vector<Step> path_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_LMDB_TREE_H_
