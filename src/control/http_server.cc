#include "control/http_server.h"

#include <glog/logging.h>
#include <sys/resource.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "control/http_stream.h"
#include "metrics/registry.h"

namespace millrace::inline control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kStatusEvery = std::chrono::milliseconds(100);
constexpr size_t kMaxHeaderBytes = 16 << 10;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

HttpRequest RequestOf(const http::request<http::string_body>& message) {
  HttpRequest request{.method = std::string(message.method_string()),
                      .target = std::string(message.target()),
                      .body = message.body()};
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    // A header that is given twice has no meaning here: the first counts.
    request.headers.emplace(std::move(name), std::string(field.value()));
  }
  return request;
}

http::response<http::string_body> MessageOf(HttpResponse response, bool keep_alive) {
  http::response<http::string_body> message;
  message.version(11);
  message.result(static_cast<unsigned>(response.status));
  message.keep_alive(keep_alive);
  message.set(http::field::content_type, response.type);
  message.set(http::field::cache_control, "no-store");
  message.set(http::field::x_frame_options, "DENY");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Referrer-Policy", "no-referrer");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.body() = std::move(response.body);
  return message;
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const HttpServerConfig& config, HttpHandler handler, StatusSource status)
      : config_(config), handler_(std::move(handler)), status_(std::move(status)) {
    Limit();
    if (!config_.certificate.empty()) LoadCertificate();
    Listen();
    AddMetrics();
  }

  void Start() {
    const auto self = shared_from_this();
    asio::co_spawn(io_, self->Accept(), asio::detached);
    asio::co_spawn(io_, self->FollowStatus(), asio::detached);
    thread_ = std::thread([self] { self->Run(); });
  }

  void Stop() {
    if (!thread_.joinable()) return;
    EndEventStreams();
    stopped_ = true;
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      for (beast::tcp_stream* const each : streams_) each->socket().close(ignored);
      io_.stop();
    });
    thread_.join();
  }

  HttpAddress address() const { return address_; }
  std::string url() const { return (tls_ ? "https://" : "http://") + address_.text(); }
  HttpCounters counters() const { return {connections_, replaced_, too_many_, malformed_}; }

 private:
  // Lets the streams send the last events, for a moment.
  void EndEventStreams() {
    asio::post(io_, [this] {
      TakeStatus();
      ending_ = true;
    });
    for (int i = 0; i < 100 && event_streams_ > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // Holds a connection as long as it exists.
  class Open {
   public:
    Open(Impl* impl, beast::tcp_stream* stream) : impl_(*impl), stream_(stream) {
      impl_.streams_.insert(stream_);
      ++impl_.connections_;
    }
    ~Open() {
      impl_.streams_.erase(stream_);
      --impl_.connections_;
    }

   private:
    Impl& impl_;
    beast::tcp_stream* const stream_;
  };

  // A connection that waits for a request, as long as this object exists.
  struct Idle {
    Idle(Impl* server, beast::tcp_stream* of)
        : impl(*server), stream(*of), place(impl.idle_.insert(impl.idle_.end(), this)) {}
    ~Idle() {
      Leave();
      if (is_closing) --impl.closing_;
    }
    Idle(const Idle&) = delete;
    Idle& operator=(const Idle&) = delete;
    void Leave() {
      if (place) impl.idle_.erase(*place);
      place.reset();
    }

    Impl& impl;
    beast::tcp_stream& stream;
    std::optional<std::list<Idle*>::iterator> place;
    bool is_closing = false;
  };

  void Limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    config_.max_connections =
        std::min<size_t>(config_.max_connections, std::max<size_t>(limit.rlim_cur / 2, 1));
  }

  void AddMetrics() {
    if (config_.metrics == nullptr) return;
    const MetricScope scope(config_.metrics, "control", {});
    const auto add = [&](const char* reason) {
      return scope.AddCounter(
          {"connections_closed_total", "Connections that the control service closed, by reason."},
          {{"reason", reason}});
    };
    connections_gauge_ =
        scope.AddGauge({"connections", "Open connections of the control service."});
    replaced_counter_ = add("replaced");
    too_many_counter_ = add("too_many");
    malformed_counter_ = add("malformed");
  }

  void UpdateMetrics() {
    if (config_.metrics == nullptr) return;
    connections_gauge_->Set(static_cast<double>(connections_));
    replaced_counter_->Set(replaced_);
    too_many_counter_->Set(too_many_);
    malformed_counter_->Set(malformed_);
  }

  void LoadCertificate() {
    tls_.emplace(asio::ssl::context::tls_server);
    tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
    error_code error;
    tls_->use_certificate_chain_file(config_.certificate, error);
    if (error) {
      throw Error(config_.certificate, ": ", error.message(),
                  ", expected a certificate in PEM form");
    }
    tls_->use_private_key_file(config_.private_key, asio::ssl::context::pem, error);
    if (error) {
      throw Error(config_.private_key, ": ", error.message(),
                  ", expected the certificate's private key in PEM form");
    }
  }

  void Listen() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(config_.address.host.text, std::to_string(config_.address.port),
                         tcp::resolver::passive, error);
    if (!error) {
      const tcp::endpoint endpoint = found.begin()->endpoint();
      acceptor_.open(endpoint.protocol(), error);
      if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error) acceptor_.bind(endpoint, error);
      if (!error) acceptor_.listen(1024, error);
    }
    if (error) {
      throw Error("control service at ", config_.address.text(), ": ", error.message());
    }
    address_ = config_.address;
    address_.port = acceptor_.local_endpoint().port();
  }

  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {  // such as no memory for a connection
        LOG(WARNING) << "Control service: " << error.what();
      }
    }
  }

  awaitable<void> Accept() {
    while (!stopped_) {
      error_code error;
      tcp::socket socket(io_);
      co_await acceptor_.async_accept(socket, asio::redirect_error(use_awaitable, error));
      if (stopped_) co_return;
      if (error) {  // such as no file descriptor: others may be closed soon
        asio::steady_timer pause(io_, kStatusEvery);
        co_await pause.async_wait(asio::redirect_error(use_awaitable, error));
        continue;
      }
      if (connections_ - closing_ >= config_.max_connections && !CloseIdle()) {
        ++too_many_;
        continue;
      }
      socket.set_option(tcp::no_delay(true), error);
      const auto self = shared_from_this();
      HttpStream stream({beast::tcp_stream(std::move(socket)), tls_ ? &*tls_ : nullptr});
      asio::co_spawn(io_, self->ServeConnection(std::move(stream)), asio::detached);
    }
  }

  // Closes the connection that has been without a request for longest. False: all have one.
  bool CloseIdle() {
    if (idle_.empty()) return false;
    Idle* const idle = idle_.front();
    idle->Leave();
    idle->is_closing = true;
    ++closing_;
    ++replaced_;
    error_code ignored;
    idle->stream.socket().close(ignored);
    return true;
  }

  awaitable<void> ServeConnection(HttpStream stream) {
    const Open open(this, &stream.tcp());
    if (!tls_) {
      co_await Serve(stream);
      co_return;
    }
    error_code error;
    stream.tcp().expires_after(Milliseconds(config_.request_seconds));
    co_await stream.async_handshake(asio::ssl::stream_base::server,
                                    asio::redirect_error(use_awaitable, error));
    if (error) {
      ++malformed_;
      co_return;
    }
    co_await Serve(stream);
    stream.tcp().expires_after(Milliseconds(config_.request_seconds));
    co_await stream.async_shutdown(asio::redirect_error(use_awaitable, error));
  }

  // Reads requests and answers them, until one of both ends the connection.
  awaitable<void> Serve(HttpStream& stream) {
    beast::flat_buffer buffer(kMaxHeaderBytes + config_.max_body_bytes);
    for (bool keep_alive = true; keep_alive && !stopped_;) {
      error_code error;
      if (buffer.size() == 0) {
        co_await AwaitData(stream, buffer, &error);
        if (error) co_return;
      }
      http::request_parser<http::string_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(config_.max_body_bytes);
      auto& lowest = stream.tcp();
      lowest.expires_after(Milliseconds(config_.request_seconds));
      co_await http::async_read(stream, buffer, parser, asio::redirect_error(use_awaitable, error));
      if (error == http::error::end_of_stream) co_return;
      HttpResponse response;
      if (error) {
        ++malformed_;
        if (!IsFaultOfRequest(error)) co_return;
        response = ProblemResponse(error == http::error::body_limit ? 413 : 400,
                                   "no HTTP request of the expected form and size");
        keep_alive = false;
      } else {
        // A client that asks for a head only would take the body for the next response.
        keep_alive = parser.get().keep_alive() && parser.get().method() != http::verb::head;
        lowest.expires_never();
        response = co_await Answer(RequestOf(parser.get()));
      }
      if (response.events_after) {
        co_await SendEvents(stream, std::move(response));
        co_return;
      }
      auto message = MessageOf(std::move(response), keep_alive);
      message.prepare_payload();
      lowest.expires_after(Milliseconds(config_.request_seconds));
      co_await http::async_write(stream, message, asio::redirect_error(use_awaitable, error));
      if (error) co_return;
    }
  }

  // Waits for the first bytes of a request, with a buffer that takes little memory as long as there
  // are none.
  awaitable<void> AwaitData(HttpStream& stream, beast::flat_buffer& buffer, error_code* error) {
    Idle idle(this, &stream.tcp());
    stream.tcp().expires_after(Milliseconds(config_.idle_seconds));
    buffer.clear();
    buffer.shrink_to_fit();
    const size_t read = co_await stream.async_read_some(
        buffer.prepare(512), asio::redirect_error(use_awaitable, *error));
    buffer.commit(read);
    if (idle.is_closing) *error = asio::error::operation_aborted;
  }

  static bool IsFaultOfRequest(const error_code& error) {
    return error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::partial_message;
  }

  // The handler's response.
  awaitable<HttpResponse> Answer(HttpRequest request) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void(HttpResponse)>(
        [self = shared_from_this()](auto handler, HttpRequest asked) {
          const auto done = std::make_shared<decltype(handler)>(std::move(handler));
          self->handler_(std::move(asked), [self, done](HttpResponse response) {
            asio::post(self->io_, [done, response = std::move(response)]() mutable {
              (*done)(std::move(response));
            });
          });
        },
        use_awaitable, std::move(request));
  }

  awaitable<void> SendEvents(HttpStream& stream, HttpResponse response) {
    auto& lowest = stream.tcp();
    error_code error;
    if (event_streams_ >= config_.max_event_streams) {
      auto refused = MessageOf(ProblemResponse(503, "too many event streams"), false);
      refused.prepare_payload();
      lowest.expires_after(Milliseconds(config_.request_seconds));
      co_await http::async_write(stream, refused, asio::redirect_error(use_awaitable, error));
      co_return;
    }
    struct Count {
      std::atomic<size_t>& count;
      ~Count() { --count; }
    } const counted{event_streams_};
    ++event_streams_;
    uint64_t last = *response.events_after;
    http::response<http::empty_body> head(MessageOf(std::move(response), false).base());
    head.chunked(false);
    http::response_serializer<http::empty_body> serializer(head);
    lowest.expires_after(Milliseconds(config_.request_seconds));
    co_await http::async_write_header(stream, serializer,
                                      asio::redirect_error(use_awaitable, error));
    for (double next_progress = 0; !error && !stopped_;) {
      std::string text;
      const bool is_last = ending_;
      for (const RunEvent& event : events_.After(last)) {
        text += StrCat("id: ", event.id, "\nevent: ", event.kind, "\ndata: ", event.data, "\n\n");
        last = event.id;
      }
      if (Seconds() >= next_progress) {
        text += StrCat("event: progress\ndata: ", status_json_, "\n\n");
        next_progress = Seconds() + config_.progress_seconds;
      }
      if (!text.empty()) {
        lowest.expires_after(Milliseconds(config_.request_seconds));
        co_await asio::async_write(stream, asio::buffer(text),
                                   asio::redirect_error(use_awaitable, error));
      }
      if (is_last) co_return;
      asio::steady_timer timer(io_, kStatusEvery);
      if (!error) co_await timer.async_wait(asio::redirect_error(use_awaitable, error));
    }
  }

  awaitable<void> FollowStatus() {
    while (!stopped_) {
      TakeStatus();
      error_code error;
      asio::steady_timer timer(io_, kStatusEvery);
      co_await timer.async_wait(asio::redirect_error(use_awaitable, error));
    }
  }

  void TakeStatus() {
    const auto [status, json] = status_();
    status_json_ = json;
    events_.Add(status, json);
    UpdateMetrics();
  }

  static double Seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  HttpServerConfig config_;
  const HttpHandler handler_;
  const StatusSource status_;
  std::optional<asio::ssl::context> tls_;
  HttpAddress address_;
  std::thread thread_;
  std::atomic<bool> stopped_{false};
  std::atomic<size_t> event_streams_{0}, connections_{0}, replaced_{0}, too_many_{0}, malformed_{0};
  Gauge* connections_gauge_ = nullptr;
  Counter *replaced_counter_ = nullptr, *too_many_counter_ = nullptr, *malformed_counter_ = nullptr;
  // The server's thread alone uses these.
  std::unordered_set<beast::tcp_stream*> streams_;
  std::list<Idle*> idle_;  // the longest first
  size_t closing_ = 0;     // of connections_, closed by CloseIdle
  EventLog events_;
  std::string status_json_ = "{}";
  bool ending_ = false;
  // Last member: the coroutines that its destructor destroys use the others.
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
};

HttpServer::HttpServer(const HttpServerConfig& config, HttpHandler handler, StatusSource status)
    : impl_(std::make_shared<Impl>(config, std::move(handler), std::move(status))) {
  impl_->Start();
}

HttpServer::~HttpServer() { Stop(); }

HttpAddress HttpServer::address() const { return impl_->address(); }

std::string HttpServer::url() const { return impl_->url(); }

HttpCounters HttpServer::counters() const { return impl_->counters(); }

void HttpServer::Stop() { impl_->Stop(); }

}  // namespace millrace::inline control
