#include "control/access.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int64_t kNow = 1'700'000'000;

SecretKey KeyOf(int number) {
  SecretKey key;
  key.bytes()[0] = static_cast<std::byte>(number);
  return key;
}

Nonce NonceOf(int number) {
  Nonce nonce{};
  nonce[0] = static_cast<std::byte>(number & 255);
  nonce[1] = static_cast<std::byte>(number >> 8 & 255);
  nonce[2] = static_cast<std::byte>(number >> 16);
  return nonce;
}

const AccessCheck::Address kLocal = {"127.0.0.1:8400", true, false};
const AccessCheck::Address kOpen = {"10.0.0.1:8400", false, false};
const AccessCheck::Address kTls = {"10.0.0.1:8400", false, true};

HttpRequest RequestTo(const AccessCheck::Address& address) {
  return {.method = "POST",
          .target = "/v1/learning_rate",
          .headers = {{"host", address.host_and_port}},
          .body = "{\"rate\":0.1}"};
}

// "": allowed.
std::string Check(AccessCheck* check, const HttpRequest& request, Access access = Access::kControl,
                  int64_t now = kNow) {
  const auto refusal = check->Check(request, access, now);
  return refusal ? StrCat(refusal->status, " ", refusal->reason) : "";
}

HttpRequest SignedRequest(const AccessCheck::Address& address, int nonce, int64_t at = kNow) {
  HttpRequest request = RequestTo(address);
  Sign(KeyOf(1), at, NonceOf(nonce), &request);
  return request;
}

TEST(AccessCheckTest, AcceptsASignedRequestOnce) {
  for (const auto& address : {kLocal, kOpen, kTls}) {
    AccessCheck check(KeyOf(1), address);
    const HttpRequest request = SignedRequest(address, 7);
    EXPECT_EQ(Check(&check, request), "");
    EXPECT_EQ(Check(&check, request), "401 this request was received before");
    EXPECT_EQ(Check(&check, SignedRequest(address, 8)), "");
  }
}

// A change of any part that is signed makes the signature wrong, and is not remembered.
TEST(AccessCheckTest, RefusesAChangedRequest) {
  AccessCheck check(KeyOf(1), kOpen);
  const HttpRequest request = SignedRequest(kOpen, 7);
  std::vector<HttpRequest> changed(6, request);
  changed[0].method = "GET";
  changed[1].target = "/v1/stop";
  changed[2].body += " ";
  changed[3].headers["millrace-time"] = StrCat(kNow + 1);
  changed[4].headers["millrace-nonce"][5] ^= 1;
  changed[5].headers["millrace-signature"][0] ^= 1;
  for (const HttpRequest& each : changed) EXPECT_EQ(Check(&check, each), "401 wrong signature");
  HttpRequest of_other_key = RequestTo(kOpen);
  Sign(KeyOf(2), kNow, NonceOf(7), &of_other_key);
  EXPECT_EQ(Check(&check, of_other_key), "401 wrong signature");
  EXPECT_EQ(Check(&check, request), "");
}

TEST(AccessCheckTest, RefusesMalformedSignatures) {
  AccessCheck check(KeyOf(1), kOpen);
  for (const char* time : {"", "x", "-5", "99999999999999999999", "1e9"}) {
    HttpRequest request = SignedRequest(kOpen, 7);
    request.headers["millrace-time"] = time;
    EXPECT_CONTAINS(Check(&check, request), "401 millrace-time or millrace-nonce is missing");
  }
  HttpRequest request = SignedRequest(kOpen, 7);
  request.headers.erase("millrace-nonce");
  EXPECT_CONTAINS(Check(&check, request), "401 millrace-time or millrace-nonce is missing");
}

TEST(AccessCheckTest, AcceptsClocksThatDifferLittle) {
  constexpr int64_t kWindow = AccessCheck::kWindowSeconds;
  AccessCheck check(KeyOf(1), kOpen);
  EXPECT_EQ(Check(&check, SignedRequest(kOpen, 1, kNow - kWindow)), "");
  EXPECT_EQ(Check(&check, SignedRequest(kOpen, 2, kNow + kWindow)), "");
  EXPECT_CONTAINS(Check(&check, SignedRequest(kOpen, 3, kNow - kWindow - 1)), "differs from this");
  EXPECT_CONTAINS(Check(&check, SignedRequest(kOpen, 4, kNow + kWindow + 1)), "differs from this");
  // A request from a clock that is ahead is remembered as long as its time is acceptable.
  EXPECT_CONTAINS(
      Check(&check, SignedRequest(kOpen, 2, kNow + kWindow), Access::kControl, kNow + 2 * kWindow),
      "received before");
}

TEST(AccessCheckTest, ForgetsNoncesWhoseTimeHasPassed) {
  AccessCheck check(KeyOf(1), kOpen);
  const auto last = static_cast<int>(AccessCheck::kMaxNonces);
  for (int i = 0; i < last; ++i) ASSERT_EQ(Check(&check, SignedRequest(kOpen, i)), "") << i;
  EXPECT_EQ(Check(&check, SignedRequest(kOpen, last)), "429 too many signed requests");
  const int64_t later = kNow + AccessCheck::kWindowSeconds + 1;
  EXPECT_EQ(Check(&check, SignedRequest(kOpen, last, later), Access::kControl, later), "");
}

TEST(AccessCheckTest, AcceptsTokensWhereNobodyReadsThem) {
  const std::string control = "Bearer " + ControlToken(KeyOf(1));
  const std::string read = "Bearer " + ReadToken(KeyOf(1));
  for (const auto& address : {kLocal, kTls}) {
    AccessCheck check(KeyOf(1), address);
    HttpRequest request = RequestTo(address);
    request.headers["authorization"] = control;
    EXPECT_EQ(Check(&check, request), "");
    EXPECT_EQ(Check(&check, request), "");
    request.headers["authorization"] = read;
    EXPECT_EQ(Check(&check, request), "403 this token is for reading only");
    EXPECT_EQ(Check(&check, request, Access::kRead), "");
    for (const std::string& wrong :
         {control + "0", control.substr(0, 20), std::string("Bearer "),
          "Basic " + control.substr(7), "Bearer " + ControlToken(KeyOf(2))}) {
      request.headers["authorization"] = wrong;
      EXPECT_EQ(Check(&check, request), "401 wrong token") << wrong;
    }
  }
  AccessCheck check(KeyOf(1), kOpen);
  HttpRequest request = RequestTo(kOpen);
  request.headers["authorization"] = control;
  EXPECT_CONTAINS(Check(&check, request), "401 a token can be read on the way");
}

TEST(AccessCheckTest, ReadsAreFreeOnLoopbackOnly) {
  for (const auto& address : {kLocal, kOpen, kTls}) {
    AccessCheck check(KeyOf(1), address);
    const HttpRequest request = RequestTo(address);
    const std::string expected = "401 expected a signed request, or a token";
    EXPECT_EQ(Check(&check, request, Access::kPublic), "");
    EXPECT_EQ(Check(&check, request, Access::kRead), address.is_loopback ? "" : expected);
    EXPECT_EQ(Check(&check, request, Access::kControl), expected);
  }
}

// Pages of other sites cannot act, whatever they know.
TEST(AccessCheckTest, RefusesOtherSites) {
  AccessCheck check(KeyOf(1), kLocal);
  HttpRequest request = RequestTo(kLocal);
  request.headers["authorization"] = "Bearer " + ControlToken(KeyOf(1));
  for (const char* host :
       {"127.0.0.1:8400", "localhost:8400", "[::1]:8400", "127.0.0.1", "localhost"}) {
    request.headers["host"] = host;
    EXPECT_EQ(Check(&check, request), "") << host;
  }
  for (const char* host :
       {"evil.example:8400", "evil.example", "", "10.0.0.1:8400", "127.0.0.1.evil:1"}) {
    request.headers["host"] = host;
    EXPECT_CONTAINS(Check(&check, request, Access::kPublic), "403 the header Host");
  }
  request.headers["host"] = "localhost:8400";
  request.headers["origin"] = "http://localhost:8400";
  EXPECT_EQ(Check(&check, request), "");
  for (const char* origin :
       {"http://evil.example", "null", "https://localhost:8400", "http://localhost:1"}) {
    request.headers["origin"] = origin;
    EXPECT_CONTAINS(Check(&check, request), "403 the header Origin");
  }
  request.headers.erase("origin");
  request.headers["sec-fetch-site"] = "cross-site";
  EXPECT_CONTAINS(Check(&check, request, Access::kRead), "403 the request comes from a page");
}

}  // namespace
}  // namespace millrace::test
