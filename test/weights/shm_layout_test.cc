// Checks the tables of docs/shm.md against the program's structures.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "test/support/support.h"
#include "test/weights/shm_support.h"
#include "weights/shm_file.h"

namespace millrace {
namespace {

struct Place {
  size_t offset, bytes;
  bool operator==(const Place&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Place& place) {
  return out << "offset " << place.offset << ", " << place.bytes << " bytes";
}

using Table = std::map<std::string, Place>;

// The tables of the page with their headings, in order. A row whose length is a formula has 0
// bytes.
std::vector<Table> DocumentedTables() {
  std::vector<Table> tables;
  std::istringstream page(ReadFile("docs/shm.md"));
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| ", 0) != 0) {
      inside = inside && line.rfind("|-", 0) == 0;
      continue;
    }
    if (!inside) {
      tables.emplace_back();
      inside = true;
      continue;  // the header row
    }
    std::istringstream cells(line.substr(1));
    std::string offset, bytes, field;
    std::getline(cells, offset, '|');
    std::getline(cells, bytes, '|');
    std::getline(cells, field, '|');
    field = field.substr(1, field.find_last_not_of(' '));
    const bool formula = bytes.find("array_floats") != std::string::npos;
    tables.back()[field] = {std::stoul(offset), formula ? 0 : std::stoul(bytes)};
  }
  return tables;
}

#define PLACE(type, member)                                   \
  {                                                           \
#member, { offsetof(type, member), sizeof(type::member) } \
  }

TEST(ShmLayout, IsTheDocumentedOne) {
  const std::vector<Table> tables = DocumentedTables();
  ASSERT_EQ(tables.size(), 4u);
  const Table header = {PLACE(ShmHeader, magic),
                        PLACE(ShmHeader, version),
                        PLACE(ShmHeader, dtype),
                        PLACE(ShmHeader, layout_digest),
                        PLACE(ShmHeader, param_count),
                        PLACE(ShmHeader, array_floats),
                        PLACE(ShmHeader, array_offset),
                        PLACE(ShmHeader, max_processes),
                        PLACE(ShmHeader, max_solvers),
                        PLACE(ShmHeader, state),
                        PLACE(ShmHeader, reserved),
                        PLACE(ShmHeader, clock.start),
                        PLACE(ShmHeader, clock.claimed),
                        PLACE(ShmHeader, clock.remote),
                        PLACE(ShmHeader, strategy),
                        PLACE(ShmHeader, processes),
                        PLACE(ShmHeader, solvers),
                        PLACE(ShmHeader, ranges.exclusive_end),
                        PLACE(ShmHeader, ranges.shared_end),
                        PLACE(ShmHeader, ranges.exclusive),
                        PLACE(ShmHeader, ranges.shared),
                        {"array", {kShmArrayOffset, 0}}};
  EXPECT_EQ(tables[0], header);
  const Table process = {PLACE(ShmProcess, start_time), PLACE(ShmProcess, pid),
                         PLACE(ShmProcess, role), PLACE(ShmProcess, reserved)};
  EXPECT_EQ(tables[1], process);
  const Table solver = {PLACE(ClockSlot, done), PLACE(ClockSlot, owner), PLACE(ClockSlot, padding),
                        PLACE(ClockSlot, unmerged), PLACE(ClockSlot, reserved)};
  EXPECT_EQ(tables[2], solver);
  const Table range = {PLACE(RangeSlot, range), PLACE(RangeSlot, owner),
                       PLACE(RangeSlot, reserved)};
  EXPECT_EQ(tables[3], range);
}

TEST(ShmLayout, OfAFileOnDiskIsTheDocumentedOne) {
  test::ShmName name;
  auto buffer = test::CreateFilled(name, 1.5f);
  buffer->clock().StartAt(7);
  buffer->clock().Claim(100);
  buffer->clock().TakeRemote(30);
  RangeLock::Shared solver(&buffer->locks());
  solver.Lock(buffer->data() + 48, 33);
  RangeLock::Exclusive exchange(&buffer->locks());
  ASSERT_TRUE(exchange.TryLock(buffer->data(), 16));
  const std::string file = ReadFile(name.path());
  const auto number = [&](size_t offset, auto type) {
    memcpy(&type, file.data() + offset, sizeof(type));
    return type;
  };
  ASSERT_EQ(file.size(), 65536 + 4 * static_cast<size_t>(buffer->size()));
  EXPECT_EQ(file.substr(0, 8), "MILLRACE");
  EXPECT_EQ(number(8, uint32_t{}), kShmVersion);
  EXPECT_EQ(number(12, uint32_t{}), 1u);
  EXPECT_EQ(number(16, uint64_t{}), test::SmallLayout().Digest());
  EXPECT_EQ(number(24, uint64_t{}), 2u);
  EXPECT_EQ(number(32, int64_t{}), test::SmallLayout().size());
  EXPECT_EQ(number(40, uint64_t{}), 65536u);
  EXPECT_EQ(number(56, uint32_t{}), 1u);
  EXPECT_EQ(number(64, int64_t{}), 7);
  EXPECT_EQ(number(128, int64_t{}), 38);
  EXPECT_EQ(number(192, int64_t{}), 30);
  EXPECT_EQ(number(4096 + 8, int32_t{}), getpid());
  EXPECT_EQ(number(4096 + 12, uint32_t{}), 1u);
  EXPECT_EQ(number(24576, uint32_t{}), 1u);
  EXPECT_EQ(number(24580, uint32_t{}), 1u);
  EXPECT_EQ(number(24640, uint64_t{}), 1u);
  EXPECT_EQ(number(24640 + 8, uint32_t{}), 1u);
  EXPECT_EQ(number(28736, uint64_t{}), (uint64_t{3} << 32) + 6);
  EXPECT_EQ(number(28736 + 8, uint32_t{}), 1u);
  EXPECT_EQ(number(65536, float{}), 1.5f);
}

}  // namespace
}  // namespace millrace
