// Checks the example frame in section "Example" of a documentation page.
#ifndef MILLRACE_TEST_SEGMENT_DOC_EXAMPLE_H_
#define MILLRACE_TEST_SEGMENT_DOC_EXAMPLE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "test/support/doc_page.h"

namespace millrace::test {

// Value of a field in the section's table; fails the test if the table lacks the field.
inline std::string ValueOf(const Section& example, const std::string& field) {
  for (const Cells& row : example.rows) {
    if (row.at(2) == field) return row.at(3);
  }
  ADD_FAILURE() << "no field " << field;
  return "0";
}

inline uint64_t IntegerOf(const Section& example, const std::string& field) {
  return std::stoull(ValueOf(example, field), nullptr, 0);
}

// Checks that the example's table has these fields, contiguous over the first `bytes` bytes, and
// that fields of up to 8 bytes have the stated values in the example frame.
inline void ExpectLiesAs(const std::vector<Cells>& fields, const Section& example, size_t bytes) {
  ASSERT_EQ(fields.size(), example.rows.size());
  ASSERT_GE(example.bytes.size(), bytes);
  size_t end = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Cells& row = example.rows[i];
    SCOPED_TRACE(row.at(2));
    for (size_t column : {0, 1, 2}) EXPECT_EQ(fields[i].at(column), row.at(column));
    EXPECT_EQ(std::stoul(row.at(0)), end);
    const size_t length = std::stoul(row.at(1));
    ASSERT_LE(end + length, bytes);
    if (length <= 8) {
      uint64_t value = 0;
      std::memcpy(&value, example.bytes.data() + end, length);
      EXPECT_EQ(value, std::stoull(row.at(3), nullptr, 0));
    }
    end += length;
  }
  EXPECT_EQ(end, bytes);
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SEGMENT_DOC_EXAMPLE_H_
