// A page of the documentation, for tests that hold the program against it.
#ifndef MILLRACE_TEST_SUPPORT_DOC_PAGE_H_
#define MILLRACE_TEST_SUPPORT_DOC_PAGE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace millrace::test {

// Of one line of a table, without the blanks around each.
using Cells = std::vector<std::string>;

// What stands below a heading, up to the next one.
struct Section {
  std::vector<Cells> rows;       // of its tables, without their heads
  std::vector<std::byte> bytes;  // of its last block, which is hexadecimal digits
};

// By heading. Throws Error if there is no such file.
std::map<std::string, Section> ReadDocPage(const std::string& path);

// Of "4d 4c": pairs of digits with blanks between them.
std::vector<std::byte> FromHex(const std::string& hex);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_DOC_PAGE_H_
