#include "test/support/doc_page.h"

#include <sstream>

#include "base/files/file.h"

namespace millrace::test {
namespace {

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

Cells CellsOf(const std::string& line) {
  Cells cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(Trimmed(cell));
  return cells;
}

}  // namespace

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  std::istringstream in(hex);
  for (std::string two; in >> two;) bytes.push_back(std::byte(std::stoul(two, nullptr, 16)));
  return bytes;
}

std::map<std::string, Section> ReadDocPage(const std::string& path) {
  std::map<std::string, Section> page;
  std::istringstream in(ReadFile(path));
  std::string heading, hex;
  bool block = false, table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      const bool digits = hex.find_first_not_of("0123456789abcdef ") == std::string::npos;
      if (block && digits) page[heading].bytes = FromHex(hex);
      hex.clear();
      block = !block;
    } else if (block) {
      hex += line + " ";
    } else if (line.starts_with("#")) {
      heading = line.substr(line.find(' ') + 1);
    }
    if (!line.starts_with("|")) {
      table = false;
    } else if (!table) {
      table = true;
      std::getline(in, line);  // the separator line below the header row
    } else {
      page[heading].rows.push_back(CellsOf(line));
    }
  }
  return page;
}

}  // namespace millrace::test
