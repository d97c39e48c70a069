// The registry of a run in etcd: requests and answers, and Debian's etcd itself.
#include "control/etcd/etcd_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "test/support/etcd_server.h"
#include "test/support/eventually.h"
#include "test/support/free_port.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

RendezvousConfig ConfigFor(std::vector<std::string> endpoints) {
  RendezvousConfig config;
  config.endpoints = std::move(endpoints);
  return config;
}

TEST(EtcdMessages, EndARangeBehindAllKeysWithThePrefix) {
  EXPECT_EQ(RangeEnd("run/"), "run0");
  EXPECT_EQ(RangeEnd("a\xff"), "b");
  EXPECT_EQ(RangeEnd("\xff"), std::string(1, '\0'));
}

TEST(EtcdMessages, HaveOneConditionAndOneChangeForEachOfTheCommit) {
  const etcd::TxnRequest txn = MakeTxn({{"run/run", 0}, {"run/node/", 0, true}},
                                       {{"run/node/1", "x"}, {"run/used/", {}, false, true}}, 7);
  ASSERT_EQ(txn.compare_size(), 2);
  EXPECT_EQ(txn.compare(0).key(), "run/run");
  EXPECT_EQ(txn.compare(0).range_end(), "");
  EXPECT_EQ(txn.compare(1).range_end(), "run/node0");
  ASSERT_EQ(txn.success_size(), 2);
  EXPECT_EQ(txn.success(0).request_put().lease(), 7);
  EXPECT_EQ(txn.success(1).request_delete_range().range_end(), "run/used0");
}

TEST(EtcdMessages, AreRefusedInOneLineIfMalformed) {
  etcd::RangeResponse response;
  ParseEtcd(R"({"header":{"raft_term":"2","revision":"9"},"kvs":[{"key":"YQ==","value":"Yg=="}]})",
            &response);
  EXPECT_EQ(response.kvs(0).key(), "a");
  for (const char* text : {"", "{", "[]", R"({"kvs":7})", R"({"kvs":[{"mod_revision":"x"}]})"}) {
    const std::string error = ErrorOf([&] { ParseEtcd(text, &response); });
    EXPECT_CONTAINS(error, "etcd: an answer that is not as expected");
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EXPECT_EQ(EtcdProblem({.status = 404, .body = R"({"error":"a\nb","code":5})"}), "a?b");
  EXPECT_EQ(EtcdProblem({.status = 502, .body = "<html>"}), "status 502");
}

class Etcd : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = EtcdServer::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
    server_ = std::make_unique<EtcdServer>("127.0.0.1", FreePort());
    server_->Start();
    // The first endpoint answers nothing.
    const std::string dead = "127.0.0.1:1";
    store_ = std::make_unique<EtcdStore>(ConfigFor({dead, server_->endpoint()}), false);
    ASSERT_TRUE(Answers());
  }
  bool Answers() {
    return Eventually([&] {
      try {
        store_->Read("run/");
        return true;
      } catch (const Error&) {
        return false;
      }
    });
  }
  // Posts to etcd, and expects success.
  void Post(const std::string& path, const std::string& body) {
    const HttpResponse response =
        SendHttp({}, HttpAddress{*ParseHostAndPort(server_->endpoint())},
                 {.method = "POST", .target = "/v3/" + path, .body = body});
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
  }

  std::unique_ptr<EtcdServer> server_;
  std::unique_ptr<EtcdStore> store_;
};

TEST_F(Etcd, CommitsOnlyIfAllConditionsHold) {
  EXPECT_TRUE(store_->Commit({{"run/", 0, true}}, {{"run/a", "1", false}}, 0));
  EXPECT_FALSE(store_->Commit({{"run/", 0, true}}, {{"run/b", "1", false}}, 0));
  std::vector<RegistryEntry> entries = store_->Read("run/");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].key, "run/a");
  EXPECT_EQ(entries[0].value, "1");
  EXPECT_TRUE(store_->Commit({{"run/a", entries[0].modified}}, {{"run/a", "2", false}}, 0));
  EXPECT_FALSE(store_->Commit({{"run/a", entries[0].modified}}, {{"run/a", "3", false}}, 0));
  EXPECT_TRUE(store_->Commit({}, {{"run/", {}, false, true}}, 0));
  EXPECT_TRUE(store_->Read("run/").empty());
}

TEST_F(Etcd, EndsKeysWithTheirLease) {
  const int64_t lease = store_->Grant(60), other = store_->Grant(60);
  EXPECT_NE(lease, other);
  EXPECT_TRUE(store_->KeepAlive(lease));
  EXPECT_TRUE(store_->Commit({}, {{"run/a", "1"}}, lease));
  EXPECT_TRUE(store_->Commit({}, {{"run/b", "1"}}, other));
  store_->Revoke(lease);
  ASSERT_EQ(store_->Read("run/").size(), 1u);
  EXPECT_EQ(store_->Read("run/")[0].key, "run/b");
  EXPECT_FALSE(store_->KeepAlive(lease));
  EXPECT_FALSE(store_->Commit({}, {{"run/a", "1"}}, lease));
  store_->Revoke(lease);  // has ended: no error
}

TEST_F(Etcd, KeepsKeysAndLeasesWhileItIsRestarted) {
  const int64_t lease = store_->Grant(600);
  EXPECT_TRUE(store_->Commit({}, {{"run/a", "1"}}, lease));
  server_->Stop();
  const std::string error = ErrorOf([&] { store_->Read("run/"); });
  EXPECT_CONTAINS(error, "etcd at 127.0.0.1:");
  server_->Start();
  ASSERT_TRUE(Answers());
  EXPECT_EQ(store_->Read("run/").size(), 1u);
  EXPECT_TRUE(store_->KeepAlive(lease));
}

TEST_F(Etcd, AsksForTheUserThatItHas) {
  Post("auth/user/add", R"({"name":"root","password":"secret"})");
  Post("auth/role/add", R"({"name":"root"})");
  Post("auth/user/grant", R"({"user":"root","role":"root"})");
  Post("auth/enable", "{}");
  EXPECT_CONTAINS(ErrorOf([&] { store_->Read("run/"); }), "user name is empty");
  const TempDir folder;
  WriteFile(folder / "password", "secret\n");
  WriteFile(folder / "wrong", "guess\n");
  RendezvousConfig config = ConfigFor({server_->endpoint()});
  config.user = "root";
  config.password_file = folder / "password";
  EtcdStore store(config, false);
  EXPECT_TRUE(store.Commit({}, {{"run/a", "1", false}}, 0));
  config.password_file = folder / "wrong";
  EtcdStore refused(config, false);
  EXPECT_CONTAINS(ErrorOf([&] { refused.Read("run/"); }), "user root: ");
}

// etcd's own gateway talks to etcd by TLS too, and checks no name.
TEST(EtcdOverTls, IsCheckedByTheAuthorities) {
  const std::string reason = EtcdServer::WhyNot();
  if (!reason.empty()) GTEST_SKIP() << reason;
  EtcdServer server("127.0.0.1", FreePort(), "test/control/tls");
  server.Start();
  RendezvousConfig config = ConfigFor({server.endpoint()});
  config.authorities = "test/control/tls/certificate.pem";
  EtcdStore store(config, true);
  EXPECT_TRUE(Eventually([&] {
    try {
      return store.Read("run/").empty();
    } catch (const Error&) {
      return false;
    }
  }));
  config.authorities = "";
  EtcdStore unchecked(config, true);
  EXPECT_CONTAINS(ErrorOf([&] { unchecked.Read("run/"); }), "certificate");
}

}  // namespace
}  // namespace millrace::test
