#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "test/support/support.h"

namespace millrace {
namespace {

// Bitwise implementation of the definition in RFC 3720.
uint32_t Reference(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

std::vector<std::byte> RandomBytes(size_t count) {
  std::mt19937_64 random(test::Seed());
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, OfTheDigitsIsWhatTheStandardSays) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(Crc32c, IsRightForEveryLengthAtEveryAddress) {
  const std::vector<std::byte> bytes = RandomBytes(700);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; begin + length <= bytes.size(); length += length < 300 ? 1 : 23) {
      const auto part = std::span(bytes).subspan(begin, length);
      ASSERT_EQ(Crc32c(part), Reference(part)) << length << " bytes at " << begin;
      // The table version, for processors whose CRC instruction is missing or slow.
      ASSERT_EQ(~crc32c::ByTables(part.data(), part.size(), ~0u), Reference(part))
          << length << " bytes at " << begin << ", by tables";
    }
  }
}

TEST(Crc32c, GoesOnFromTheChecksumOfWhatCameBefore) {
  for (const size_t length : {150, 500}) {
    const std::vector<std::byte> bytes = RandomBytes(length);
    const uint32_t whole = Reference(bytes);
    for (size_t split = 0; split <= bytes.size(); split += 7) {
      const auto all = std::span(bytes);
      ASSERT_EQ(Crc32c(all.subspan(split), Crc32c(all.first(split))), whole) << split;
    }
  }
}

template <size_t kFirst>
void ExpectRightBehind() {
  const std::vector<std::byte> bytes = RandomBytes(kFirst + 250);
  for (size_t length = 0; length <= 250; ++length) {
    const auto all = std::span<const std::byte>(bytes).first(kFirst + length);
    ASSERT_EQ(Crc32c(all.first<kFirst>(), all.subspan(kFirst)), Reference(all))
        << length << " bytes behind " << kFirst;
  }
}

TEST(Crc32c, OfAHeadOfKnownLengthAndWhatIsBehindIsThatOfBoth) {
  ExpectRightBehind<0>();
  ExpectRightBehind<7>();
  ExpectRightBehind<60>();
  ExpectRightBehind<191>();
}

}  // namespace
}  // namespace millrace
