#include "control/etcd/etcd_store.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/files/file.h"
#include "control/run_report.h"
#include "proto/parse.h"

namespace millrace::inline control {
namespace {

constexpr int kNotFound = 404, kUnauthorized = 401;
constexpr double kSeconds = 2;  // for one answer of one endpoint

bool IsOk(const HttpResponse& response) { return response.status >= 200 && response.status < 300; }

const RegisterStore etcd("etcd", [](const RendezvousConfig& config) {
  return std::make_unique<EtcdStore>(config, false);
});
const RegisterStore etcds("etcds", [](const RendezvousConfig& config) {
  return std::make_unique<EtcdStore>(config, true);
});

}  // namespace

std::string RangeEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix.empty() ? std::string(1, '\0') : prefix;  // all further keys
}

etcd::TxnRequest MakeTxn(const std::vector<RegistryCondition>& conditions,
                         const std::vector<RegistryChange>& changes, int64_t lease) {
  etcd::TxnRequest txn;
  for (const RegistryCondition& condition : conditions) {
    etcd::Compare& compare = *txn.add_compare();
    compare.set_target(etcd::Compare::MOD);
    compare.set_key(condition.key);
    compare.set_mod_revision(condition.modified);
    if (condition.is_prefix) compare.set_range_end(RangeEnd(condition.key));
  }
  for (const RegistryChange& change : changes) {
    if (change.value) {
      etcd::PutRequest& put = *txn.add_success()->mutable_request_put();
      put.set_key(change.key);
      put.set_value(*change.value);
      if (change.is_leased) put.set_lease(lease);
    } else {
      etcd::DeleteRangeRequest& range = *txn.add_success()->mutable_request_delete_range();
      range.set_key(change.key);
      if (change.is_prefix) range.set_range_end(RangeEnd(change.key));
    }
  }
  return txn;
}

void ParseEtcd(const std::string& json, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(json, message, options);
  if (!status.ok()) {
    throw Error("etcd: an answer that is not as expected: ",
                OneLine(std::string(status.message())));
  }
}

std::string EtcdProblem(const HttpResponse& response) {
  etcd::Problem problem;
  try {
    ParseEtcd(response.body, &problem);
  } catch (const Error&) {
    problem.clear_error();
  }
  const std::string& text = problem.error().empty() ? problem.message() : problem.error();
  return text.empty() ? StrCat("status ", response.status) : OneLine(text);
}

EtcdStore::EtcdStore(const RendezvousConfig& config, bool tls) : user_(config.user) {
  client_.tls = tls;
  client_.authorities = config.authorities;
  client_.seconds = kSeconds;
  client_.service = "etcd";
  for (const std::string& endpoint : config.endpoints) {
    endpoints_.push_back(HttpAddress{*ParseHostAndPort(endpoint)});
  }
  if (user_.empty()) return;
  password_ = ReadFile(config.password_file);
  while (!password_.empty() && (password_.back() == '\n' || password_.back() == '\r')) {
    password_.pop_back();
  }
}

Error EtcdStore::Refusal(const HttpResponse& response) const {
  return Error("etcd at ", endpoints_[endpoint_].text(), ": ", EtcdProblem(response));
}

HttpResponse EtcdStore::Post(const std::string& path, const google::protobuf::Message& request) {
  HttpRequest post{.method = "POST", .target = "/v3/" + path, .body = JsonOf(request)};
  if (!token_.empty()) post.headers["authorization"] = token_;
  for (size_t tried = 0;; ++tried) {
    try {
      const HttpResponse response = SendHttp(client_, endpoints_[endpoint_], post);
      // A member that cannot reach the others answers with such a status.
      if (response.status < 500) return response;
      throw Refusal(response);
    } catch (const Error&) {
      endpoint_ = (endpoint_ + 1) % endpoints_.size();
      if (tried + 1 == endpoints_.size()) throw;
    }
  }
}

HttpResponse EtcdStore::PostAuthenticated(const std::string& path,
                                          const google::protobuf::Message& request) {
  if (!user_.empty() && token_.empty()) Authenticate();
  HttpResponse response = Post(path, request);
  if (response.status != kUnauthorized || user_.empty()) return response;
  Authenticate();  // the token has expired
  return Post(path, request);
}

void EtcdStore::Authenticate() {
  token_.clear();
  etcd::AuthenticateRequest request;
  request.set_name(user_);
  request.set_password(password_);
  const HttpResponse response = Post("auth/authenticate", request);
  if (!IsOk(response)) {
    throw Error("etcd at ", endpoints_[endpoint_].text(), ": user ", user_, ": ",
                EtcdProblem(response));
  }
  etcd::AuthenticateResponse answer;
  ParseEtcd(response.body, &answer);
  token_ = answer.token();
}

void EtcdStore::Ask(const std::string& path, const google::protobuf::Message& request,
                    google::protobuf::Message* response) {
  const HttpResponse answer = PostAuthenticated(path, request);
  if (!IsOk(answer)) {
    throw Refusal(answer);
  }
  ParseEtcd(answer.body, response);
}

int64_t EtcdStore::Grant(int64_t seconds) {
  etcd::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcd::LeaseGrantResponse response;
  Ask("lease/grant", request, &response);
  if (response.id() == 0) throw Error("etcd: no lease: ", OneLine(response.error()));
  return response.id();
}

bool EtcdStore::KeepAlive(int64_t lease) {
  etcd::LeaseRequest request;
  request.set_id(lease);
  etcd::LeaseKeepAliveStream response;
  Ask("lease/keepalive", request, &response);
  if (!response.has_result()) throw Error("etcd: an answer without a lease");
  return response.result().ttl() > 0;
}

void EtcdStore::Revoke(int64_t lease) {
  etcd::LeaseRequest request;
  request.set_id(lease);
  const HttpResponse answer = PostAuthenticated("lease/revoke", request);
  if (IsOk(answer) || answer.status == kNotFound) return;
  throw Refusal(answer);
}

std::vector<RegistryEntry> EtcdStore::Read(const std::string& prefix) {
  etcd::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(RangeEnd(prefix));
  etcd::RangeResponse response;
  Ask("kv/range", request, &response);
  std::vector<RegistryEntry> entries;
  for (const etcd::KeyValue& each : response.kvs()) {
    entries.push_back({each.key(), each.value(), each.mod_revision()});
  }
  return entries;
}

bool EtcdStore::Commit(const std::vector<RegistryCondition>& conditions,
                       const std::vector<RegistryChange>& changes, int64_t lease) {
  const HttpResponse answer = PostAuthenticated("kv/txn", MakeTxn(conditions, changes, lease));
  if (answer.status == kNotFound) return false;  // the lease has ended
  if (!IsOk(answer)) {
    throw Refusal(answer);
  }
  etcd::TxnResponse response;
  ParseEtcd(answer.body, &response);
  return response.succeeded();
}

}  // namespace millrace::inline control
