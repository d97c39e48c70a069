#include "batches/batch_client.h"

#include <glog/logging.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/wire_bytes.h"
#include "segment/auth/key_file.h"

namespace millrace::inline batches {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kTogetherNs = 1 * kMs;  // within which frames wait for others to be sent with
// Messages are a large part of the cost of smaller batches. Larger ones cost more if they wait for
// each other, because they leave the caches meanwhile.
constexpr uint64_t kSmallBatchBytes = 256 << 10;
constexpr size_t kKeptConsumed = 1 << 13;  // more than a worker can have in work

int64_t NowNs() { return SteadyClock().NowNs(); }

bool GiveSameBatches(const batch_api::Welcome& a, const batch_api::Welcome& b) {
  if (a.top_size() != b.top_size() || a.batch_size() != b.batch_size() || a.same() != b.same() ||
      a.transform() != b.transform()) {
    return false;
  }
  for (int i = 0; i < a.top_size(); ++i) {
    if (a.top(i).SerializeAsString() != b.top(i).SerializeAsString()) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<BatchClient> BatchClient::Connect(const ServiceAddress& address) {
  std::shared_ptr<BatchClient> client(new BatchClient(address));
  Session session = client->AgreePatiently(NowNs(), "");
  client->welcome_ = session.welcome;
  client->timeout_ns_ = client->welcome_.timeout_ms() * kMs;
  client->Use(std::move(session));
  client->thread_ = std::make_unique<Thread>(
      "batches", [raw = client.get()] { raw->Run(); }, &client->sink_);
  return client;
}

BatchClient::BatchClient(const ServiceAddress& address)
    : address_(address),
      key_(address.key_file.empty() ? std::optional<SecretKey>()
                                    : BatchKey(ReadKeyFile(address.key_file))) {}

BatchClient::~BatchClient() {
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    stopped_ = true;
    SendLocked(MakeFrame(FrameKind::kBye));
  }
  if (thread_) thread_->Stop();
}

std::string BatchClient::place() const {
  return layer_.empty() ? address_.text + ": "
                        : StrCat("data layer '", layer_, "': ", address_.text, ": ");
}

BatchClient::Session BatchClient::Agree() {
  Session session;
  session.socket = WorkerSocket(address_.host_and_port);
  WorkerSocket& socket = session.socket;
  FrameHeader header = socket.ReadHeader(0);
  const std::string first = socket.ReadPayload(header);
  const auto challenge =
      header.kind == FrameKind::kChallenge ? ParseChallenge(first) : std::optional<Challenge>();
  if (!challenge) throw Error("it is no minibatch service");
  if (challenge->version != kBatchProtocolVersion) {
    throw Refused(StrCat("it speaks version ", challenge->version, " of the protocol, expected ",
                         kBatchProtocolVersion),
                  false);
  }
  if (challenge->needs_key != key_.has_value()) {
    throw Refused(key_ ? "it has no key, but the address gives a key_file"
                       : "it has a key, expected ?key_file=PATH after the address",
                  false);
  }
  const SecretKey* const key = key_ ? &*key_ : nullptr;
  const Nonce nonce = DrawNonce(SystemRandom);
  batch_api::Hello hello;
  hello.set_version(kBatchProtocolVersion);
  hello.set_name(address_.name);
  hello.set_layer(address_.layer);
  hello.set_nonce(nonce.data(), nonce.size());
  hello.set_wants_memory(address_.memory);
  if (!socket.Send(MakeFrame(FrameKind::kHello, MakeTagged(key, Speaker::kWorker, challenge->nonce,
                                                           hello.SerializeAsString())))) {
    throw Error(ErrnoText(errno));
  }
  header = socket.ReadHeader(0);
  const std::string answer = socket.ReadPayload(header);
  if (header.kind == FrameKind::kRefusal) {
    batch_api::Refusal refusal;
    refusal.ParseFromString(answer);
    throw Refused(refusal.reason(), refusal.passing());
  }
  const auto message = header.kind == FrameKind::kWelcome
                           ? CheckTagged(key, Speaker::kService, nonce, answer)
                           : std::optional<std::string_view>();
  if (!message) throw Refused("it has another key", false);
  if (!session.welcome.ParseFromArray(message->data(), static_cast<int>(message->size())) ||
      !IsConsistent(session.welcome)) {
    throw Refused("its answer is not consistent", false);
  }
  if (session.welcome.memory().empty()) return session;
  FileDescriptor link = ConnectLocally(session.welcome.memory());
  if (link.get() < 0) return session;  // on another machine
  std::string id(sizeof(uint64_t), '\0');
  Put(reinterpret_cast<std::byte*>(id.data()), 0, session.welcome.link());
  FileDescriptor file;
  if (send(link.get(), id.data(), id.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(id.size())) {
    file = ReceiveDescriptor(link.get());
  }
  if (file.get() < 0) return session;  // of another user
  session.mapping =
      std::make_shared<const Mapping>(std::move(file), session.welcome, std::move(link));
  return session;
}

BatchClient::Session BatchClient::AgreePatiently(int64_t since_ns, const std::string& why) {
  std::string reason = why;
  bool has_logged = false;
  for (int64_t pause_ms = 20;; pause_ms = std::min<int64_t>(2 * pause_ms, 1000)) {
    try {
      return Agree();
    } catch (const Refused& refused) {
      if (!refused.is_passing) throw Error(place(), refused.what());
      reason = refused.what();
    } catch (const Error& error) {
      reason = error.what();
    }
    const double waited = static_cast<double>(NowNs() - since_ns) * 1e-9;
    if (waited >= address_.wait_seconds) {
      throw Error(place(), "the service does not answer (", reason, "), also after ",
                  address_.wait_seconds, " s");
    }
    if (!has_logged) {
      LOG(WARNING) << place() << "the service does not answer (" << reason << "); waits up to "
                   << address_.wait_seconds << " s for it";
      has_logged = true;
    }
    Pause(pause_ms);
  }
}

void BatchClient::Pause(int64_t ms) const {
  constexpr int64_t kPart = 50;
  for (; ms > 0; ms -= kPart) {
    InterruptionPoint();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(ms, kPart)));
  }
}

void BatchClient::Use(Session session) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  session.socket.SetReadTimeout(std::max<int64_t>(timeout_ns_ / kMs, 1));
  socket_ = std::move(session.socket);
  mapping_ = std::move(session.mapping);
  ++generation_;
  broken_ = has_begun_ = false;
  unreleased_.clear();
  arrived_.clear();
  queued_.clear();
  queued_wants_ = 0;
  sent_ns_ = NowNs();
  if (has_sequence_) SendBegin();
}

void BatchClient::Begin(const std::string& layer, uint64_t sequence, bool resumed) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (has_sequence_) return;
  has_sequence_ = true;
  layer_ = layer;
  sequence_ = sequence;
  resumed_ = resumed;
  SendBegin();
}

void BatchClient::SendBegin() {
  batch_api::Begin begin;
  begin.set_sequence(sequence_);
  begin.set_resumed(resumed_);
  begin.set_uses_memory(mapping_ != nullptr);
  for (const uint64_t number : held_) begin.add_held(number);
  SendLocked(MakeFrame(FrameKind::kBegin, begin.SerializeAsString()));
}

void BatchClient::SendLocked(const std::string& frame) {
  queued_ += frame;
  FlushLocked();
}

void BatchClient::SendSoonLocked() {
  const bool is_enough =
      2 * queued_wants_ >= welcome_.credit() || ValuesBytes(welcome_) > kSmallBatchBytes;
  if (is_enough || NowNs() - sent_ns_ > kTogetherNs) FlushLocked();
}

void BatchClient::FlushLocked() {
  queued_wants_ = 0;
  const std::string frames = std::exchange(queued_, "");
  if (frames.empty()) return;
  sent_ns_ = NowNs();
  SendNowLocked(frames);
}

void BatchClient::SendNowLocked(const std::string& frames) {
  if (broken_ || socket_.Send(frames)) return;
  broken_ = true;
  shutdown(socket_.fd(), SHUT_RDWR);  // Follow notices
}

void BatchClient::Run() {
  int64_t lost_ns = 0;  // since when there has been no agreed connection; 0: there is one
  while (true) {
    const std::string why = Follow();
    int64_t pause_ms = 20;
    {
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (stopped_ || !error_.empty()) return;
      // A connection on which the service never agreed to the sequence does not count.
      const bool was_refused = !has_begun_ && has_sequence_;
      if (was_refused) pause_ms = 200;
      if (lost_ns == 0 || !was_refused) lost_ns = NowNs();
      has_begun_ = false;
      if (was_refused && static_cast<double>(NowNs() - lost_ns) * 1e-9 > address_.wait_seconds) {
        error_ = place() + why;
        changed_.notify_all();
        return;
      }
    }
    LOG_EVERY_T(WARNING, 1) << place() << "the connection is lost: " << why;
    Pause(pause_ms);
    try {
      Session session = AgreePatiently(lost_ns, why);
      if (!GiveSameBatches(session.welcome, welcome_)) {
        return Fail("the service gives other batches now");
      }
      Use(std::move(session));
    } catch (const Error& error) {
      boost::unique_lock<boost::mutex> lock(mutex_);
      error_ = error.what();
      changed_.notify_all();
      return;
    }
  }
}

void BatchClient::Fail(const std::string& reason) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  error_ = place() + reason;
  changed_.notify_all();
}

std::string BatchClient::Follow() {
  const int tick_ms = static_cast<int>(std::clamp<int64_t>(timeout_ns_ / (8 * kMs), 1, 100));
  const uint64_t max_batch_bytes = kBatchHeaderBytes + ValuesBytes(welcome_);
  int64_t heard_ns = NowNs();
  try {
    while (true) {
      if (!socket_.has_input()) {
        pollfd polled{socket_.fd(), POLLIN, 0};
        const int ready = poll(&polled, 1, HasQueued() ? 1 : tick_ms);
        Tick();
        if (ready <= 0) {
          boost::unique_lock<boost::mutex> lock(mutex_);
          if (stopped_) return "";
          if (NowNs() - heard_ns > timeout_ns_) return "it is silent";
          continue;
        }
      }
      OnFrame(socket_.ReadHeader(max_batch_bytes));
      heard_ns = NowNs();
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (stopped_) return "";
      if (!error_.empty()) return error_;
    }
  } catch (const Error& error) {
    return error.what();
  }
}

bool BatchClient::HasQueued() const {
  boost::unique_lock<boost::mutex> lock(mutex_);
  return !queued_.empty();
}

void BatchClient::Tick() {
  boost::unique_lock<boost::mutex> lock(mutex_);
  const int64_t silent_ns = NowNs() - sent_ns_;
  if (silent_ns > timeout_ns_ / 4) return SendLocked(MakeFrame(FrameKind::kPing));
  if (silent_ns > kTogetherNs) FlushLocked();
}

void BatchClient::OnFrame(const FrameHeader& header) {
  if (header.kind == FrameKind::kBatch) return OnBatch(header);
  const std::string payload = socket_.ReadPayload(header);
  if (header.kind == FrameKind::kPing) return;
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (header.kind == FrameKind::kRefusal) {
    batch_api::Refusal refusal;
    refusal.ParseFromString(payload);
    if (!refusal.passing()) {
      error_ = StrCat(place(), "the service refuses: ", refusal.reason());
      changed_.notify_all();
    }
    throw Error(refusal.reason());
  }
  batch_api::Begun begun;
  if (header.kind != FrameKind::kBegun || !begun.ParseFromString(payload)) {
    throw Error("it sends what was not expected");
  }
  if (begun.revoked_size() > 0) {
    LOG(WARNING) << place() << begun.revoked_size()
                 << " batches that this worker has were given to "
                 << "others while it was lost: they may be trained on twice";
  }
  has_begun_ = true;
  for (const uint64_t number : consumed_) SendLocked(MakeFrame(FrameKind::kConsumed, number));
  changed_.notify_all();
}

void BatchClient::OnBatch(const FrameHeader& header) {
  std::string start(std::min<size_t>(header.bytes, kBatchHeaderBytes), '\0');
  socket_.Read(start.data(), start.size());
  const auto batch = ParseBatchHeader(start);
  const uint64_t bytes = header.bytes - start.size();
  const bool in_memory = bytes == 0;
  if (!batch ||
      (in_memory ? !mapping_ || batch->slot >= welcome_.slots() : bytes != ValuesBytes(welcome_))) {
    throw Error("it sends a batch that was not expected");
  }
  Arrived arrived{.slot = batch->slot, .values = nullptr};
  if (!in_memory) {
    {
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (!spare_.empty()) {
        arrived.values = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (!arrived.values) arrived.values.reset(new char[bytes]);
    constexpr uint64_t kPart = 1 << 20;  // between which pings are sent
    for (uint64_t at = 0; at < bytes; at += kPart) {
      socket_.Read(arrived.values.get() + at, std::min(kPart, bytes - at));
      Tick();
    }
  }
  boost::unique_lock<boost::mutex> lock(mutex_);
  resumed_ = true;                                   // the service knows the sequence now
  if (!unreleased_.contains(batch->number)) return;  // dropped meanwhile
  arrived_[batch->number] = std::move(arrived);
  changed_.notify_all();
}

void BatchClient::Want(uint64_t number) {
  unreleased_.insert(number);
  queued_ += MakeFrame(FrameKind::kWant, number);
  ++queued_wants_;
}

void BatchClient::WantAhead() {
  if (!has_begun_) return;
  for (uint64_t n = ahead_; n < ahead_ + welcome_.credit(); ++n) {
    if (unreleased_.size() >= welcome_.credit()) return;
    if (!unreleased_.contains(n)) Want(n);
  }
}

// Gives up batches that were asked for ahead, if they take all of the credit: Get wants another.
void BatchClient::MakeCredit(uint64_t number) {
  if (unreleased_.size() < welcome_.credit()) return;
  const std::set<uint64_t> asked = unreleased_;
  for (const uint64_t each : asked) {
    if (each == number || held_.contains(each)) continue;
    queued_ += MakeFrame(FrameKind::kDrop, each);
    unreleased_.erase(each);
    const auto arrived = arrived_.find(each);
    if (arrived == arrived_.end()) continue;
    if (arrived->second.values) spare_.push_back(std::move(arrived->second.values));
    arrived_.erase(arrived);
  }
}

BatchClient::View BatchClient::Get(uint64_t number) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  while (error_.empty() && !arrived_.contains(number)) {
    if (has_begun_ && !unreleased_.contains(number)) {
      MakeCredit(number);
      if (unreleased_.size() < welcome_.credit()) Want(number);
    }
    FlushLocked();
    changed_.wait(lock);
  }
  if (!error_.empty()) throw Error(error_);
  auto taken = arrived_.extract(number);
  Arrived& arrived = taken.mapped();
  held_.insert(number);
  ahead_ = number + 1;
  WantAhead();
  SendSoonLocked();
  const size_t bytes = ValuesBytes(welcome_);
  const auto release = [self = shared_from_this(), number, generation = generation_,
                        mapping = mapping_](char* values) {
    self->Release(number, generation, std::unique_ptr<char[]>(values));
  };
  if (!arrived.values) {
    const auto* const values =
        reinterpret_cast<const char*>(mapping_->memory.slot(arrived.slot) + welcome_.offset());
    return {{values, bytes}, std::shared_ptr<char>(nullptr, release)};
  }
  char* const values = arrived.values.release();
  return {{values, bytes}, std::shared_ptr<char>(values, release)};
}

void BatchClient::Release(uint64_t number, uint64_t generation, std::unique_ptr<char[]> values) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (values) spare_.push_back(std::move(values));
  if (generation != generation_ || unreleased_.erase(number) == 0) return;
  queued_ += MakeFrame(FrameKind::kRelease, number);
  WantAhead();
  SendSoonLocked();
  changed_.notify_all();
}

void BatchClient::MarkConsumed(uint64_t number) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  held_.erase(number);
  consumed_.push_back(number);
  if (consumed_.size() > kKeptConsumed) consumed_.pop_front();
  // At once, so that no other worker gets the batch, whatever happens to this one.
  if (has_begun_) SendNowLocked(MakeFrame(FrameKind::kConsumed, number));
}

bool BatchClient::uses_memory() const {
  boost::unique_lock<boost::mutex> lock(mutex_);
  return mapping_ != nullptr;
}

}  // namespace millrace::inline batches
