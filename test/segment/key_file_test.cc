#include "segment/auth/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test/sim/handshake_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

class KeyFile : public testing::Test {
 protected:
  void Write(const std::string& content, mode_t mode = 0600) {
    test::WriteFile(path_, content);
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Read() {
    const SecretKey key = ReadKeyFile(path_);
    return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
  }
  std::string Refusal() {
    return test::ErrorOf([&] { ReadKeyFile(path_); });
  }

  test::TempDir folder_;
  const std::string path_ = folder_ / "key";
};

TEST_F(KeyFile, Holds32BytesOr64Digits) {
  std::string raw, digits;
  for (int i = 0; i < 32; ++i) {
    raw += static_cast<char>(i * 9);
    char two[3];
    snprintf(two, sizeof(two), i % 2 == 0 ? "%02x" : "%02X", (i * 9) & 0xff);
    digits += two;
  }
  for (const std::string& content : {raw, digits, digits + "\n", digits + "\r\n"}) {
    Write(content);
    EXPECT_EQ(Read(), raw);
  }
  for (const std::string& bytes : {std::string(32, '\0'), std::string(31, 'x') + "\n"}) {
    Write(bytes);
    EXPECT_EQ(Read(), bytes);
  }
}

constexpr const char* kExpected =
    ", expected 32 bytes or 64 hexadecimal digits; make one with "
    "(umask 077; openssl rand -hex 32 > KEY_FILE)";

TEST_F(KeyFile, OfAnotherLengthIsRefused) {
  std::vector<std::string> contents = {std::string(64, '0') + " ", std::string(64, 'a') + "\n\n"};
  for (size_t size : {0, 1, 31, 33, 63, 65, 66, 128, 5000, 1 << 20}) {
    contents.push_back(std::string(size, 'a'));
  }
  for (const std::string& content : contents) {
    Write(content);
    EXPECT_EQ(Refusal(), path_ + ": holds a key of another length" + kExpected) << content.size();
  }
}

TEST_F(KeyFile, WithOtherLettersIsRefused) {
  for (const std::string& content : {std::string(63, 'a') + "g", std::string(64, 'x')}) {
    Write(content);
    EXPECT_EQ(Refusal(), path_ + ": holds something else than hexadecimal digits" + kExpected);
  }
}

TEST_F(KeyFile, IsReadIfItsOwnerAloneMay) {
  Write(std::string(32, 'k'), 0400);
  EXPECT_EQ(Read(), std::string(32, 'k'));
  for (mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0644}) {
    Write(std::string(32, 'k'), mode);
    EXPECT_EQ(Refusal(), path_ +
                             ": others than its owner have permissions for it, expected none "
                             "(chmod 600)");
  }
}

TEST_F(KeyFile, HasToBeAFile) {
  EXPECT_EQ(Refusal(), path_ + ": No such file or directory");
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(Refusal(), path_ + ": is not a regular file, expected a key file");
  rmdir(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(), path_ + ": is not a regular file, expected a key file");
}

TEST(ClusterKey, EveryPurposeHasAKeyOfItsOwn) {
  const SecretKey key = sim::KeyOf(1);
  const Nonce session_id = {std::byte{1}}, other = {std::byte{2}};
  const SecretKey keys[] = {HandshakeKey(key, 1),
                            HandshakeKey(key, 2),
                            SessionKey(key, 1, 0, session_id),
                            SessionKey(key, 2, 0, session_id),
                            SessionKey(key, 1, 1, session_id),
                            SessionKey(key, 1, 0, other),
                            SessionKey(sim::KeyOf(2), 1, 0, session_id)};
  for (size_t i = 0; i < std::size(keys); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(std::ranges::equal(keys[i].bytes(), keys[j].bytes())) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace millrace
