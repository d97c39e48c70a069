#include "data/lmdb_tree.h"

#include <glog/logging.h>

#include <bit>

#include "base/error.h"

namespace millrace::inline data {
namespace {

static_assert(std::endian::native == std::endian::little, "as the files are");

// A page: number (8 bytes), 2 unused bytes, flags, then lower and upper, the bounds of the free
// space between the offsets of the nodes, which follow, and the nodes.
constexpr size_t kPageHead = 16, kFlags = 10, kLower = 12;
constexpr uint16_t kBranch = 1, kLeaf = 2, kMetaPage = 8;
constexpr uint16_t kKinds = 0x6f;  // those, overflow, leaf2 and subpage

// A node: in a leaf the size of the value (4 bytes), in a branch the page below (6 bytes); flags;
// the size of the key; the key; the value, or the number of its page.
constexpr size_t kNodeHead = 8;
constexpr uint16_t kBigValue = 1;

constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint16_t kSeveralValues = 4;  // flag of a database (MDB_DUPSORT)
constexpr uint32_t kSmallestPage = 256, kLargestPage = 32768;

// Reads a number exactly once, so that the checked value is the value used, even if the file
// changes meanwhile. Nodes are at even addresses.
template <typename T>
T Load(const char* at) {
  T value = 0;
  const auto* halves = reinterpret_cast<const volatile uint16_t*>(at);
  for (size_t i = 0; i < sizeof(T) / 2; ++i) value |= static_cast<T>(T{halves[i]} << (16 * i));
  return value;
}

template <typename... Parts>
Error Damaged(uint64_t page, const Parts&... parts) {
  return Error("page ", page, " of data.mdb is damaged: ", parts...);
}

}  // namespace

LmdbMeta ParseLmdbMeta(std::string_view page) {
  CHECK_GE(page.size(), LmdbMeta::kBytes);
  const char* const at = page.data() + kPageHead;
  if ((Load<uint16_t>(page.data() + kFlags) & kMetaPage) == 0 || Load<uint32_t>(at) != kMagic) {
    throw Error("data.mdb is not an LMDB database, or is truncated");
  }
  if (const auto version = Load<uint32_t>(at + 4); version != kVersion) {
    throw Error("data.mdb has version ", version, " of LMDB's format, expected ", kVersion);
  }
  // Two databases, the free pages and the records. Fields of each: pad (in the first one, the page
  // size), flags, levels, numbers of branch, leaf and overflow pages, entries, root.
  const char* const free_pages = at + 24;
  const char* const records = free_pages + 48;
  LmdbMeta meta;
  meta.page_size = Load<uint32_t>(free_pages);
  meta.levels = Load<uint16_t>(records + 6);
  meta.entries = Load<uint64_t>(records + 32);
  meta.root = Load<uint64_t>(records + 40);
  meta.last_page = Load<uint64_t>(records + 48);
  meta.transaction = Load<uint64_t>(records + 56);
  const std::string damaged = "data.mdb has a damaged meta page: ";
  if (!std::has_single_bit(meta.page_size) || meta.page_size < kSmallestPage ||
      meta.page_size > kLargestPage) {
    throw Error(damaged, "pages of ", meta.page_size, " bytes");
  }
  if ((Load<uint16_t>(records + 4) & kSeveralValues) != 0) {
    throw Error("data.mdb may hold several records for one key, which is not supported");
  }
  constexpr uint64_t kMostBytes = uint64_t{1} << 62;
  if (meta.last_page >= kMostBytes / meta.page_size) {
    throw Error("data.mdb is truncated, or its meta page is damaged: its last page is ",
                meta.last_page);
  }
  if (meta.entries == 0) return meta;
  if (meta.levels == 0 || meta.levels > LmdbMeta::kMostLevels) {
    throw Error(damaged, "a tree of ", meta.levels, " levels");
  }
  // A record takes at least the head of a node and an offset.
  if (meta.entries > meta.file_size() / (kNodeHead + sizeof(uint16_t))) {
    throw Error(damaged, meta.entries, " records in ", meta.file_size(), " bytes");
  }
  return meta;
}

LmdbWalk::LmdbWalk(std::string_view file, const LmdbMeta& meta) : file_(file), meta_(meta) {
  CHECK_GE(file.size(), meta.file_size());
  path_.reserve(meta.levels);
}

const char* LmdbWalk::PageAt(uint64_t page) const { return file_.data() + page * meta_.page_size; }

void LmdbWalk::Enter(uint64_t page, size_t level) {
  if (page > meta_.last_page) {
    throw Error("data.mdb is damaged: it refers to page ", page, ", its last one is ",
                meta_.last_page);
  }
  const bool is_leaf = level + 1 == meta_.levels;
  const char* const at = PageAt(page);
  const auto flags = Load<uint16_t>(at + kFlags);
  if (Load<uint64_t>(at) != page || (flags & kKinds) != (is_leaf ? kLeaf : kBranch)) {
    throw Damaged(page, "it is not the ", is_leaf ? "leaf" : "branch", " page that belongs there");
  }
  const auto lower = Load<uint16_t>(at + kLower);
  if (lower < kPageHead + sizeof(uint16_t) || lower > meta_.page_size) {
    throw Damaged(page, "its nodes end at byte ", lower);
  }
  path_.push_back({page, 0, static_cast<uint32_t>((lower - kPageHead) / sizeof(uint16_t))});
}

const char* LmdbWalk::NodeAt(const Step& step, size_t head) const {
  const char* const page = PageAt(step.page);
  const auto place = Load<uint16_t>(page + kPageHead + sizeof(uint16_t) * step.node);
  if (place < kPageHead || place % 2 != 0 || place + head > meta_.page_size) {
    throw Damaged(step.page, "node ", step.node, " is at byte ", place);
  }
  return page + place;
}

LmdbWalk::Record LmdbWalk::RecordAt(const Step& step) const {
  const char* const node = NodeAt(step, kNodeHead);
  const auto size = Load<uint32_t>(node);
  const auto flags = Load<uint16_t>(node + 4);
  const auto key_size = Load<uint16_t>(node + 6);
  const bool big = flags == kBigValue;
  if (flags != 0 && !big) throw Damaged(step.page, "node ", step.node, " is no record");
  const uint64_t room = meta_.page_size - static_cast<uint64_t>(node - PageAt(step.page));
  if (kNodeHead + key_size + (big ? sizeof(uint64_t) : uint64_t{size}) > room) {
    throw Damaged(step.page, "node ", step.node, " goes beyond its end");
  }
  const std::string_view key(node + kNodeHead, key_size);
  const char* const value = node + kNodeHead + key_size;
  if (!big) return {key, {value, size}};
  uint64_t page = 0;  // as Load, but at any address: keys may have an odd number of bytes
  const auto* bytes = reinterpret_cast<const volatile uint8_t*>(value);
  for (size_t i = 0; i < sizeof(page); ++i) page |= uint64_t{bytes[i]} << (8 * i);
  // Does not read the pages of the value: a walk over the keys must not read all values.
  const uint64_t pages = (kPageHead + uint64_t{size} + meta_.page_size - 1) / meta_.page_size;
  if (page > meta_.last_page || pages > meta_.last_page + 1 - page) {
    throw Damaged(step.page, "node ", step.node, " has a value of ", size, " bytes on page ", page,
                  "; the last page is ", meta_.last_page);
  }
  return {key, {PageAt(page) + kPageHead, size}};
}

LmdbWalk::Record LmdbWalk::Next() {
  if (path_.empty()) Enter(meta_.root, 0);
  while (path_.back().node == path_.back().nodes) {
    path_.pop_back();
    if (path_.empty()) throw Error("data.mdb is damaged: not all of its records are there");
  }
  while (path_.size() < meta_.levels) {
    const char* const node = NodeAt(path_.back(), kNodeHead);
    ++path_.back().node;
    Enter(Load<uint64_t>(node) & 0xffffffffffff, path_.size());
  }
  const Record record = RecordAt(path_.back());
  ++path_.back().node;
  return record;
}

}  // namespace millrace::inline data
