#include "topology/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "test/support/support.h"

namespace millrace::test {
namespace {

class KeyFile : public testing::Test {
 protected:
  void Write(const std::string& content, mode_t mode = 0600) {
    WriteFile(path_, content);
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Refusal(const std::string& content) {
    Write(content);
    return ErrorOf([&] { CheckKeyFile(path_); });
  }

  TempDir folder_;
  const std::string path_ = folder_ / "k";
};

TEST_F(KeyFile, Holds32Bytes) {
  for (const std::string& key : {std::string(32, '\0'), std::string(31, 'x') + "\n"}) {
    Write(key);
    EXPECT_NO_THROW(CheckKeyFile(path_));
  }
}

TEST_F(KeyFile, OrHolds64HexDigits) {
  for (const char* end : {"", "\n", "\r\n"}) {
    std::string digits;
    while (digits.size() < 64) digits += "0fA9";
    Write(digits + end);
    EXPECT_NO_THROW(CheckKeyFile(path_));
  }
}

TEST_F(KeyFile, IsRefusedIfItHoldsAnythingElse) {
  const std::string expected = path_ +
                               ": holds no key, expected 32 bytes or 64 hex digits; make one with "
                               "(umask 077; openssl rand -hex 32 > KEY_FILE)";
  for (const std::string& bad :
       {std::string(), std::string(31, 'x'), std::string(33, 'x'), std::string(64, 'x'),
        std::string(63, '0'), std::string(65, '0'), std::string(64, '0') + " ",
        std::string(64, '0') + "\n\n", std::string(1 << 20, '0')}) {
    EXPECT_EQ(Refusal(bad), expected) << bad.size();
  }
}

TEST_F(KeyFile, IsReadIfItsOwnerAloneMay) {
  Write(std::string(32, 'x'), 0400);
  EXPECT_NO_THROW(CheckKeyFile(path_));
  for (const mode_t mode : {0640, 0620, 0610, 0604, 0602, 0601}) {
    Write(std::string(32, 'x'), mode);
    EXPECT_EQ(ErrorOf([&] { CheckKeyFile(path_); }),
              path_ + ": others than its owner have permissions for it, expected none (chmod 600)");
  }
}

TEST_F(KeyFile, HasToBeAFile) {
  EXPECT_EQ(ErrorOf([&] { CheckKeyFile(path_); }), path_ + ": No such file or directory");
  EXPECT_EQ(ErrorOf([&] { CheckKeyFile(folder_.path()); }),
            folder_.path() + ": is not a regular file, expected a key file");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf([&] { CheckKeyFile(pipe); }),
            pipe + ": is not a regular file, expected a key file");
}

}  // namespace
}  // namespace millrace::test
