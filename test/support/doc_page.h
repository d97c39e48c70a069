// A documentation page, for tests that check the program against it.
#ifndef MILLRACE_TEST_SUPPORT_DOC_PAGE_H_
#define MILLRACE_TEST_SUPPORT_DOC_PAGE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace millrace::test {

// The cells of a table row, without surrounding blanks.
using Cells = std::vector<std::string>;

// The text between one heading and the next.
struct Section {
  std::vector<Cells> rows;       // of its tables, without header rows
  std::vector<std::byte> bytes;  // of its last code block of hexadecimal digits
};

// Sections by heading. Throws Error if the file does not exist.
std::map<std::string, Section> ReadDocPage(const std::string& path);

// Bytes of a string such as "4d 4c": pairs of digits, separated by blanks.
std::vector<std::byte> FromHex(const std::string& hex);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_DOC_PAGE_H_
