// What workers say to the service.
#include <glog/logging.h>

#include <cstring>

#include "batches/service_loop.h"
#include "data/batch_source.h"

namespace millrace::inline batches {

bool ServiceLoop::OnFrame(Peer* peer, uint64_t id, const FrameDecoder::Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kPing:
      return peer->state != Peer::State::kChallenged;
    case FrameKind::kHello:
      return peer->state == Peer::State::kChallenged && OnHello(peer, frame.payload);
    case FrameKind::kBegin:
      return peer->state == Peer::State::kWelcomed && OnBegin(peer, id, frame.payload);
    case FrameKind::kBye:
      peer->said_bye = true;
      return false;
    case FrameKind::kWant:
    case FrameKind::kRelease:
    case FrameKind::kConsumed:
    case FrameKind::kDrop: {
      const std::optional<uint64_t> number = ParseNumberPayload(frame.payload);
      return number && peer->state == Peer::State::kBegun &&
             OnNumber(peer, id, frame.kind, *number);
    }
    default:
      return false;
  }
}

bool ServiceLoop::Refuse(Peer* peer, const std::string& reason, bool is_passing) {
  metrics_.AddRefused();
  LOG(WARNING) << "Refuses " << peer->text << ": " << reason;
  batch_api::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_passing(is_passing);
  peer->connection.Send(MakeFrame(FrameKind::kRefusal, refusal.SerializeAsString()));
  peer->state = Peer::State::kClosing;
  return true;
}

std::optional<size_t> ServiceLoop::LayerOf(const std::string& name) const {
  const auto& layers = maker_.layers();
  if (name.empty() && layers.size() == 1) return 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].name == name) return i;
  }
  return {};
}

bool ServiceLoop::OnHello(Peer* peer, std::string_view payload) {
  const auto message = CheckTagged(key_ ? &*key_ : nullptr, Speaker::kWorker, peer->nonce, payload);
  if (!message)
    return Refuse(peer, key_ ? "it has not the service's key"
                             : "it has a key, but the "
                               "service has none");
  batch_api::Hello hello;
  if (!hello.ParseFromArray(message->data(), static_cast<int>(message->size())) ||
      hello.nonce().size() != sizeof(Nonce)) {
    return false;
  }
  if (hello.version() != kBatchProtocolVersion) {
    return Refuse(peer, StrCat("it speaks version ", hello.version(), " of the protocol, expected ",
                               kBatchProtocolVersion));
  }
  if (hello.name() != config_.name) {
    return Refuse(peer, StrCat("there is no service '", hello.name(), "' at this address, it is '",
                               config_.name, "'"));
  }
  const std::optional<size_t> layer = LayerOf(hello.layer());
  if (!layer) {
    std::string names;
    for (const auto& each : maker_.layers()) names += (names.empty() ? "" : ", ") + each.name;
    return Refuse(peer,
                  StrCat("the service has the layers ", names, ", expected one of them after ",
                         "its name: ", config_.name, "/LAYER"));
  }
  peer->layer = *layer;
  Welcome(peer, hello);
  return true;
}

void ServiceLoop::Welcome(Peer* peer, const batch_api::Hello& hello) {
  const BatchMaker::LayerInfo& info = maker_.layers()[peer->layer];
  batch_api::Welcome welcome;
  welcome.set_layer(info.name);
  welcome.set_batch_size(info.batch_size);
  for (const Shape& shape : info.shapes) {
    batch_api::Top* const top = welcome.add_top();
    for (const int64_t dim : shape) top->add_dim(dim);
  }
  welcome.set_transform(info.transform);
  welcome.set_same(config_.same);
  welcome.set_slots(static_cast<uint32_t>(dispatcher_config_.slots));
  welcome.set_slot_bytes(maker_.bytes());
  welcome.set_offset(info.offset);
  welcome.set_credit(config_.credit);
  welcome.set_timeout_ms(static_cast<uint32_t>(std::max<int64_t>(timeout_ns_ / 1'000'000, 1)));
  if (hello.wants_memory() && link_listener_.get() >= 0) {
    SystemRandom({reinterpret_cast<std::byte*>(&peer->link_id), sizeof(peer->link_id)});
    welcome.set_memory(link_name_);
    welcome.set_link(peer->link_id);
  }
  Nonce nonce;
  memcpy(nonce.data(), hello.nonce().data(), nonce.size());
  peer->connection.Send(MakeFrame(
      FrameKind::kWelcome,
      MakeTagged(key_ ? &*key_ : nullptr, Speaker::kService, nonce, welcome.SerializeAsString())));
  peer->state = Peer::State::kWelcomed;
}

bool ServiceLoop::OnBegin(Peer* peer, uint64_t id, std::string_view payload) {
  batch_api::Begin begin;
  if (!begin.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
      begin.sequence() < kFirstSequenceId) {
    return false;
  }
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (!failure_.empty()) return Refuse(peer, failure_);
  for (const auto& [other_id, other] : peers_) {
    if (other->state == Peer::State::kBegun && other->sequence == begin.sequence() &&
        other->layer == peer->layer && other_id != id) {
      return Refuse(
          peer, StrCat("another worker, ", other->text, ", goes on from the same position"), true);
    }
  }
  if (ledger_ && begin.resumed() && !ledger_->Knows(begin.sequence())) {
    if (!config_.has_first_batch) {
      return Refuse(peer,
                    "the service was started anew and does not know the worker's position: "
                    "start it with --state of the earlier one, or with --first_batch to "
                    "choose where it begins");
    }
    LOG(WARNING) << peer->text << " goes on from a position of an earlier service: it is taken as "
                 << "a new worker, as --first_batch asks for";
  }
  if (!dispatcher_.Add(id, begin.sequence())) {
    return Refuse(peer,
                  StrCat("the service has its ", config_.max_workers, " workers (--max_workers)"),
                  true);
  }
  peer->sequence = begin.sequence();
  peer->uses_memory = begin.uses_memory() && peer->link.get() >= 0;
  peer->state = Peer::State::kBegun;
  lost_.erase(peer->sequence);
  batch_api::Begun begun;
  for (const uint64_t number : begin.held()) {
    if (ledger_ && !ledger_->Has(peer->sequence, number)) begun.add_revoked(number);
  }
  peer->connection.Send(MakeFrame(FrameKind::kBegun, begun.SerializeAsString()));
  LOG(INFO) << "Worker " << peer->text << " takes batches of layer '"
            << maker_.layers()[peer->layer].name
            << (peer->uses_memory ? "' in shared memory" : "' over its connection");
  return true;
}

bool ServiceLoop::OnNumber(Peer* peer, uint64_t id, FrameKind kind, uint64_t number) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (kind == FrameKind::kConsumed) {
    if (!ledger_ || ledger_->Consume(peer->sequence, number)) {
      ++counts_.consumed;
      return true;
    }
    ++counts_.twice;
    LOG(WARNING) << "Worker " << peer->text << " has trained on its batch " << number
                 << ", which was given to another one while it was lost";
    return true;
  }
  if (kind == FrameKind::kWant) {
    if (!dispatcher_.Want(id, number)) {
      return Refuse(peer, StrCat("batch ", number,
                                 " is before what the service has kept, or more "
                                 "than a worker may hold"));
    }
  } else if (kind == FrameKind::kRelease) {
    dispatcher_.Release(id, number);
  } else {
    dispatcher_.Drop(id, number);
  }
  may_have_work_ = true;
  return true;
}

void ServiceLoop::RefuseAll() {
  std::string failure;
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    failure = failure_;
  }
  if (failure.empty()) return;
  for (const auto& [id, peer] : peers_) {
    if (peer->state == Peer::State::kBegun) Refuse(peer.get(), failure);
  }
}

}  // namespace millrace::inline batches
