#include "topology/key_file.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace::test {
namespace {

const std::string kHowTo = "; make one with: (umask 077; openssl rand -hex 32 > KEY_FILE)";

TEST(ParseKey, ReadsHexDigitsAsBytes) {
  std::string hex, bytes;
  for (int i = 0; i < 16; ++i) {
    hex += "0fA9";
    bytes += "\x0f\xa9";
  }
  EXPECT_EQ(ParseKey(hex, "k"), bytes);
  EXPECT_EQ(ParseKey(hex + " \r\n", "k"), bytes);
}

TEST(ParseKey, TakesAnythingElseAsItIs) {
  const std::string digits(31, '0');
  EXPECT_EQ(ParseKey(digits + "x", "k"), digits + "x");
  EXPECT_EQ(ParseKey(digits + "\n" + "0", "k"), digits + "\n" + "0");
  const std::string binary = std::string(31, '\0') + "\n";
  EXPECT_EQ(ParseKey(binary, "k"), binary);
}

TEST(ParseKey, RefusesShortKeys) {
  const auto error = [](const std::string& content) {
    return ErrorOf([&] { ParseKey(content, "k"); });
  };
  EXPECT_EQ(error(""), "k: holds a key of 0 bytes, expected at least 32" + kHowTo);
  EXPECT_EQ(error(std::string(31, 'x')),
            "k: holds a key of 31 bytes, expected at least 32" + kHowTo);
  EXPECT_EQ(error(std::string(62, '0') + "\n"),
            "k: holds a key of 31 bytes, expected at least 32" + kHowTo);
  EXPECT_EQ(error(std::string(65, '0')), "k: holds 65 hex digits, expected an even number");
}

class KeyFile : public testing::Test {
 protected:
  std::string Error() {
    return ErrorOf([&] { LoadKeyFile(path_); });
  }
  void Write(const std::string& content, const char* mode) {
    WriteFile(path_, content);
    ASSERT_EQ(Run({"chmod", mode, path_}).status, 0);
  }

  TempDir folder_;
  const std::string path_ = folder_ / "k";
};

TEST_F(KeyFile, IsReadIfItsOwnerAloneMay) {
  const std::string key(40, 'x');
  Write(key, "600");
  EXPECT_EQ(LoadKeyFile(path_), key);
  Write(key, "400");
  EXPECT_EQ(LoadKeyFile(path_), key);
}

TEST_F(KeyFile, IsRefusedIfOthersMayReadOrWrite) {
  for (const char* mode : {"640", "620", "604", "602", "610"}) {
    Write(std::string(40, 'x'), mode);
    EXPECT_EQ(Error(), path_ +
                           ": others than its owner have permissions for it, expected none "
                           "(chmod 600)");
  }
}

TEST_F(KeyFile, HasToBeAFileOfAKeysSize) {
  EXPECT_EQ(Error(), path_ + ": No such file or directory");
  Write(std::string(4097, 'x'), "600");
  EXPECT_EQ(Error(), path_ + ": is larger than 4096 bytes, expected a key" + kHowTo);
  Write(std::string(4096, 'x'), "600");
  EXPECT_EQ(LoadKeyFile(path_).size(), 4096u);
  EXPECT_EQ(ErrorOf([&] { LoadKeyFile(folder_.path()); }), folder_.path() + ": is not a file");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(Run({"mkfifo", "-m", "600", pipe}).status, 0);
  EXPECT_EQ(ErrorOf([&] { LoadKeyFile(pipe); }), pipe + ": is not a file");
}

}  // namespace
}  // namespace millrace::test
