#include "rendezvous/rendezvous.h"

#include <glog/logging.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "base/registration.h"
#include "base/text/format.h"
#include "base/text/names.h"
#include "base/text/parse.h"
#include "millrace/file_descriptor.h"
#include "transport/inet_address.h"
#include "transport/network_names.h"

namespace millrace::inline rendezvous {
namespace {

constexpr int kMaxNodes = 4096;
// Longest pause between two looks at the cluster and at the end.
constexpr int64_t kTickNs = 100'000'000;

std::map<std::string, StoreFactory>& Stores() {
  static std::map<std::string, StoreFactory> stores;
  return stores;
}

bool IsEndpoint(const std::string& text) {
  const auto parsed = ParseHostAndPort(text);
  return parsed && parsed->port != 0;
}

std::string ParseAddress(const std::string& field, const std::string& text) {
  const auto host = ParseHost(text);
  if (!host || host->kind == HostKind::kName) {
    throw Error(field, "=", text, ": expected an IP address");
  }
  return host->text;
}

void ParseSettings(const std::string& field, const std::string& text, RendezvousConfig* config) {
  for (const std::string& setting : Split(text, '&')) {
    const size_t equals = std::min(setting.find('='), setting.size() - 1);
    const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
    if (key == "address") {
      config->address = ParseAddress(field + ": address", value);
      continue;
    }
    if (key == "control") {
      if (!IsEndpoint(value)) {
        throw Error(field, ": \"", setting, "\" given, expected control=HOST:PORT");
      }
      config->control = value;
      continue;
    }
    const auto seconds = ParseNumber<int64_t>(value);
    const bool is_lease = key == "lease";
    if (!is_lease && key != "restart") {
      throw Error(field, ": \"", setting, "\" given, expected lease=SECONDS, restart=SECONDS, ",
                  "address=IP or control=HOST:PORT");
    }
    const int64_t least = is_lease ? 2 : 0;
    if (!seconds || *seconds < least || *seconds > 86'400) {
      throw Error(field, ": \"", setting, "\" given, expected ", key, "=SECONDS, from ", least,
                  " to 86400");
    }
    (is_lease ? config->lease_seconds : config->restart_seconds) = *seconds;
  }
}

void ParseUrl(const std::string& url, RendezvousConfig* config) {
  const std::string field = StrCat("--rendezvous=", url);
  const size_t colon = url.find("://");
  config->scheme = url.substr(0, colon);
  if (colon == std::string::npos || Stores().count(config->scheme) == 0) {
    std::string known;
    for (const auto& [scheme, factory] : Stores()) known += (known.empty() ? "" : " or ") + scheme;
    throw Error(field, ": expected SCHEME://HOST:PORT/RUN, with SCHEME ", known);
  }
  const std::string rest = url.substr(colon + 3);
  const size_t query = std::min(rest.find('?'), rest.size());
  const std::string place = rest.substr(0, query);
  const size_t slash = std::min(place.find('/'), place.size());
  config->endpoints = Split(place.substr(0, slash), ',');
  for (const std::string& endpoint : config->endpoints) {
    if (!IsEndpoint(endpoint)) {
      throw Error(field, ": \"", endpoint, "\" given, expected HOST:PORT");
    }
  }
  config->run = slash < place.size() ? place.substr(slash + 1) : "";
  if (!IsIdentifier(config->run)) {
    throw Error(field, ": \"", config->run, "\" given as the name of the run, expected 1 to 64 ",
                "letters, digits, '-', '_' or '.' after the hosts and a slash");
  }
  if (query < rest.size()) ParseSettings(field, rest.substr(query + 1), config);
}

void ParseNodes(const std::string& text, RendezvousConfig* config) {
  const size_t colon = text.find(':');
  const std::string max = colon == std::string::npos ? text : text.substr(colon + 1);
  const auto min_nodes = ParseNumber<int>(colon == std::string::npos ? "1" : text.substr(0, colon));
  const auto max_nodes = ParseNumber<int>(max);
  if (!min_nodes || !max_nodes || *min_nodes < 1 || *max_nodes < std::max(2, *min_nodes) ||
      *max_nodes > kMaxNodes) {
    throw Error("--nodes=", text, ": expected MIN:MAX with 1 <= MIN <= MAX and MAX from 2 to ",
                kMaxNodes);
  }
  config->min_nodes = *min_nodes;
  config->max_nodes = *max_nodes;
}

std::string DrawInstance() {
  std::array<std::byte, 16> bytes;
  while (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
  }
  return Hex(bytes);
}

// The host part of this machine's address towards one of the endpoints. Throws Error if the names
// of all are unknown.
std::string OwnHostTowards(const std::vector<std::string>& endpoints) {
  for (size_t i = 0;; ++i) {
    try {
      const InetAddress there = ResolveUdpAddress("--rendezvous", endpoints[i]);
      const FileDescriptor socket(::socket(there.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      InetAddress here;
      socklen_t length = sizeof(here.v6);
      if (socket.get() < 0 || connect(socket.get(), &there.any, there.length()) != 0 ||
          getsockname(socket.get(), &here.any, &length) != 0) {
        throw Error("--rendezvous: no route to ", endpoints[i], "; --rendezvous_address=HOST says ",
                    "at which address the other nodes reach this one");
      }
      return ParseHostAndPort(here.Text())->host.text;
    } catch (const Error&) {
      if (i + 1 == endpoints.size()) throw;
    }
  }
}

// The address at which other nodes reach a control service that listens at `control`, on the
// machine with the IP address `address`. "": they do not.
std::string ReachableControl(const std::string& control, const std::string& address) {
  const auto listens = ParseHostAndPort(control);
  if (!listens) return "";
  const NetworkHost own = *ParseHost(address);
  const bool is_any = listens->host.text == "0.0.0.0" || listens->host.text == "::";
  if (IsLoopback(listens->host) && !IsLoopback(own)) return "";
  return HostAndPort(is_any ? own : listens->host, listens->port);
}

}  // namespace

RegisterStore::RegisterStore(const std::string& scheme, StoreFactory factory) {
  if (!Stores().emplace(scheme, std::move(factory)).second) {
    ReportSecondRegistration("registry", scheme);
  }
}

RendezvousConfig ParseRendezvous(const RendezvousOptions& options) {
  RendezvousConfig config;
  ParseUrl(options.url, &config);
  ParseNodes(options.nodes, &config);
  if (options.user.empty() != options.password_file.empty()) {
    throw Error("--rendezvous_user and --rendezvous_password_file: expected both or none");
  }
  if (!options.address.empty()) {
    config.address = ParseAddress("--rendezvous_address", options.address);
  }
  config.user = options.user;
  config.password_file = options.password_file;
  config.authorities = options.authorities;
  if (!options.control.empty()) config.control = options.control;
  return config;
}

bool IsOfThisMachine(const RendezvousConfig& config) {
  return std::ranges::all_of(config.endpoints, [](const std::string& endpoint) {
    return IsLoopback(ParseHostAndPort(endpoint)->host);
  });
}

RegistryView ReadRegistry(RendezvousOptions options) {
  options.nodes = std::to_string(kMaxNodes);
  const RendezvousConfig config = ParseRendezvous(options);
  const std::string prefix = config.run + "/";
  return ParseRegistry(prefix, kMaxNodes, Stores().at(config.scheme)(config)->Read(prefix));
}

Rendezvous::Rendezvous(const RendezvousConfig& config, const Pause& pause,
                       std::unique_ptr<RegistryStore> store)
    : config_(config), store_(std::move(store)) {
  if (!store_) store_ = Stores().at(config_.scheme)(config_);
  if (config_.address.empty()) {
    config_.address = OwnHostTowards(config_.endpoints);
    if (IsLoopback(*ParseHost(config_.address))) {
      LOG(WARNING) << "This node registers as " << config_.address << ", which other machines "
                   << "cannot reach; --rendezvous_address=HOST gives another address";
    }
  }
  registration_ = std::make_unique<Registration>(
      RegistrationConfig{
          .prefix = config_.run + "/",
          .min_nodes = config_.min_nodes,
          .max_nodes = config_.max_nodes,
          .instance = DrawInstance(),
          .address = config_.address,
          .control = ReachableControl(config_.control, config_.address),
          .lease_seconds = config_.lease_seconds,
          .restart_ns = config_.restart_seconds < 0 ? -1 : config_.restart_seconds * 1'000'000'000},
      store_.get());
  while (!registration_->node()) {
    const int64_t next = registration_->Step(clock_.NowNs());
    LogLines();
    const int64_t wait = std::clamp<int64_t>(next - clock_.NowNs(), 0, kTickNs);
    if (!registration_->node() && pause(static_cast<int>(wait / 1'000'000))) {
      throw Error("--rendezvous: stopped before this node had an id in the run ", config_.run);
    }
  }
  node_ = *registration_->node();
  told_.resize(config_.max_nodes);
  thread_ = std::make_unique<Thread>(
      "rendezvous", [this] { Serve(); }, &errors_);
}

Rendezvous::~Rendezvous() { Leave(); }

void Rendezvous::LogLines() {
  for (const Registration::Line& line : registration_->TakeLines()) {
    if (line.is_warning) {
      LOG(WARNING) << line.text;
    } else {
      LOG(INFO) << line.text;
    }
  }
}

void Rendezvous::Attach(RendezvousPeers peers) {
  std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
}

void Rendezvous::Detach() {
  std::lock_guard lock(mutex_);
  if (peers_) has_begun_ |= peers_->begun();
  peers_.reset();
}

void Rendezvous::Leave(bool completed) {
  Detach();
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    completed_ = completed;
  }
  changed_.notify_all();
  if (thread_) thread_->Join();
  thread_.reset();
}

void Rendezvous::Serve() {
  while (!registration_->left()) {
    Follow();
    const int64_t next = registration_->Step(clock_.NowNs());
    LogLines();
    std::unique_lock lock(mutex_);
    const int64_t wait = leaving_ ? 0 : std::clamp<int64_t>(next - clock_.NowNs(), 0, kTickNs);
    changed_.wait_for(lock, std::chrono::nanoseconds(wait), [this] { return leaving_; });
  }
}

// Carries news between the cluster and the registration.
void Rendezvous::Follow() {
  std::lock_guard lock(mutex_);
  if (peers_) {
    has_begun_ |= peers_->begun();
    registration_->AddHeard(peers_->heard());
    const std::vector<std::string>& addresses = registration_->addresses();
    for (NodeId node = 0; node < addresses.size(); ++node) {
      if (addresses[node].empty() || addresses[node] == told_[node]) continue;
      told_[node] = addresses[node];
      peers_->set_address(node, addresses[node]);
    }
    if (registration_->may_bootstrap() && !std::exchange(has_allowed_, true)) {
      peers_->allow_bootstrap();
    }
    if (registration_->run_ended()) peers_->run_ended();
    if (!registration_->conflict().empty()) peers_->fail(registration_->conflict());
  }
  if (has_begun_) registration_->SetJoined();
  if (leaving_) registration_->BeginLeave(completed_);
}

}  // namespace millrace::inline rendezvous
