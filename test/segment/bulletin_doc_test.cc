// docs/bulletins.md against the program: the tables' places, the reasons, and every byte of
// the example.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "segment/bulletin_frame.h"

namespace millrace {
namespace {

using Row = std::vector<std::string>;

struct Page {
  std::map<std::string, std::vector<Row>> rows;  // of tables with a head, by heading
  std::vector<std::byte> example;
};

Page ReadPage() {
  Page page;
  std::istringstream in(ReadFile("docs/bulletins.md"));
  std::string heading;
  bool hex = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    if (line.starts_with("```")) hex = !hex;
    std::istringstream words(line);
    if (hex && !line.starts_with("```")) {
      for (std::string two; words >> two;) {
        page.example.push_back(std::byte(std::stoul(two, nullptr, 16)));
      }
    }
    if (!line.starts_with("|")) continue;
    Row row;
    for (std::string cell; std::getline(words, cell, '|');) {
      const size_t begin = cell.find_first_not_of(' ');
      if (begin != std::string::npos) {
        row.push_back(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
      }
    }
    page.rows[heading].push_back(row);
  }
  // Without their heads.
  for (auto& [name, rows] : page.rows) rows.erase(rows.begin(), rows.begin() + 2);
  return page;
}

uint64_t ValueOf(const Page& page, const std::string& field) {
  for (const Row& row : page.rows.at("Example")) {
    if (row.at(2) == field) return std::stoull(row.at(3), nullptr, 0);
  }
  ADD_FAILURE() << "no field " << field;
  return 0;
}

TEST(BulletinDoc, TheExampleIsWhatThePageSays) {
  const Page page = ReadPage();
  BulletinHead head;
  std::span<const std::byte> part;
  ASSERT_EQ(DecodeBulletin(page.example, &head, &part), BulletinDrop::kNone);
  EXPECT_EQ(static_cast<uint64_t>(head.kind), ValueOf(page, "kind"));
  EXPECT_EQ(static_cast<uint64_t>(head.topic), ValueOf(page, "topic"));
  EXPECT_EQ(head.topic, Topic::kReport);
  EXPECT_EQ(head.run, ValueOf(page, "run"));
  EXPECT_EQ(head.source, ValueOf(page, "source"));
  EXPECT_EQ(head.destination, ValueOf(page, "destination"));
  EXPECT_EQ(head.incarnation, ValueOf(page, "incarnation"));
  EXPECT_EQ(head.origin, ValueOf(page, "origin"));
  EXPECT_EQ(head.total, ValueOf(page, "total"));
  EXPECT_EQ(head.offset, ValueOf(page, "offset"));
  EXPECT_EQ(head.edition.incarnation, ValueOf(page, "origin_incarnation"));
  EXPECT_EQ(head.edition.version, ValueOf(page, "edition"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(part.data()), part.size()), "17.5\n");
  std::array<std::byte, kBulletinHeadBytes> again;
  EncodeBulletin(head, part, again);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), page.example.begin()));
}

TEST(BulletinDoc, TheExampleLiesAsTheTableSays) {
  const Page page = ReadPage();
  const auto &fields = page.rows.at("Frame"), &values = page.rows.at("Example");
  ASSERT_EQ(fields.size(), values.size());
  size_t end = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    SCOPED_TRACE(fields[i].at(2));
    for (size_t column : {0, 1, 2}) EXPECT_EQ(fields[i].at(column), values[i].at(column));
    EXPECT_EQ(std::stoul(fields[i].at(0)), end);
    const size_t bytes = std::stoul(fields[i].at(1));
    uint64_t value = 0;
    std::memcpy(&value, page.example.data() + end, std::min(bytes, sizeof(value)));
    EXPECT_EQ(value, std::stoull(values[i].at(3), nullptr, 0));
    end += bytes;
  }
  EXPECT_EQ(end, kBulletinHeadBytes);
}

TEST(BulletinDoc, ThePageNamesAllReasonsInTheirOrder) {
  const Page page = ReadPage();
  std::vector<std::string> reasons;
  for (const Row& row : page.rows.at("Checks")) reasons.push_back(row.at(0));
  std::vector<std::string> drops;
  for (int i = 1; i < static_cast<int>(BulletinDrop::kCount); ++i) {
    drops.emplace_back(BulletinDropName(static_cast<BulletinDrop>(i)));
  }
  EXPECT_EQ(reasons, drops);
}

}  // namespace
}  // namespace millrace
