#include "control/http_client.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "control/http_stream.h"

namespace millrace::inline control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;
using Response = http::response<http::string_body>;

constexpr size_t kMaxBodyBytes = 64 << 20;

http::request<http::string_body> MessageOf(const HttpAddress& address, const HttpRequest& request) {
  http::request<http::string_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(request.target);
  message.set(http::field::host, address.text());
  message.set(http::field::connection, "close");
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  return message;
}

// One request and its response.
class Exchange {
 public:
  Exchange(const HttpClientConfig& config, const HttpAddress& address, const HttpRequest& request,
           const OnHttpEvent* on_event)
      : config_(config),
        address_(address),
        request_(MessageOf(address, request)),
        limit_(std::chrono::milliseconds(static_cast<int64_t>(config.seconds * 1e3))),
        on_event_(on_event) {}

  HttpResponse Run() {
    std::exception_ptr failure;
    asio::co_spawn(io_, Connect(), [&](std::exception_ptr error) { failure = error; });
    io_.run();
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
      const std::string line =
          StrCat(config_.service, " at ", address_.text(), ": ", error.code().message());
      const bool is_gone = error.code() == asio::error::connection_refused ||
                           error.code() == asio::error::connection_reset ||
                           error.code() == http::error::end_of_stream;
      if (is_gone) throw ServiceGone(line);
      throw Error(line);
    }
    return std::move(result_);
  }

 private:
  awaitable<void> Connect() {
    tcp::resolver resolver(io_);
    const auto endpoints = co_await resolver.async_resolve(
        address_.host.text, std::to_string(address_.port), use_awaitable);
    beast::tcp_stream plain(io_);
    plain.expires_after(limit_);
    co_await plain.async_connect(endpoints, use_awaitable);
    if (!config_.tls) {
      HttpStream stream({std::move(plain)});
      co_await Talk(stream);
      co_return;
    }
    asio::ssl::context context(asio::ssl::context::tls_client);
    context.set_verify_mode(asio::ssl::verify_peer);
    if (config_.authorities.empty()) {
      context.set_default_verify_paths();
    } else {
      context.load_verify_file(config_.authorities);
    }
    HttpStream stream({std::move(plain), &context});
    stream.ExpectHost(address_.host.text);
    co_await stream.async_handshake(asio::ssl::stream_base::client, use_awaitable);
    co_await Talk(stream);
  }

  awaitable<void> Talk(HttpStream& stream) {
    co_await http::async_write(stream, request_, use_awaitable);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxBodyBytes);
    co_await http::async_read_header(stream, buffer, parser, use_awaitable);
    result_.status = static_cast<int>(parser.get().result_int());
    result_.type = std::string(parser.get()[http::field::content_type]);
    if (on_event_ != nullptr && result_.type == "text/event-stream") {
      co_await ReadEvents(stream, std::string(beast::buffers_to_string(buffer.data())));
      co_return;
    }
    co_await http::async_read(stream, buffer, parser, use_awaitable);
    result_.body = parser.get().body();
  }

  awaitable<void> ReadEvents(HttpStream& stream, std::string text) {
    for (;;) {
      for (size_t end; (end = text.find("\n\n")) != std::string::npos; text.erase(0, end + 2)) {
        if (!Emit(std::string_view(text).substr(0, end))) co_return;
      }
      if (text.size() > kMaxBodyBytes) throw Error("an event of ", address_.text(), " is too long");
      stream.tcp().expires_after(limit_);
      char bytes[4096];
      boost::system::error_code error;
      const size_t read = co_await stream.async_read_some(
          asio::buffer(bytes), asio::redirect_error(use_awaitable, error));
      if (error == asio::error::eof) co_return;
      if (error) throw boost::system::system_error(error);
      text.append(bytes, read);
    }
  }

  // An event: lines "name: value".
  bool Emit(std::string_view text) {
    std::string_view kind, data;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (line.starts_with("event: ")) kind = line.substr(7);
      if (line.starts_with("data: ")) data = line.substr(6);
    }
    return (*on_event_)(kind, data);
  }

  const HttpClientConfig& config_;
  const HttpAddress& address_;
  const http::request<http::string_body> request_;
  const std::chrono::milliseconds limit_;
  const OnHttpEvent* const on_event_;
  HttpResponse result_;
  asio::io_context io_{1};
};

}  // namespace

HttpResponse SendHttp(const HttpClientConfig& config, const HttpAddress& address,
                      const HttpRequest& request) {
  return Exchange(config, address, request, nullptr).Run();
}

HttpResponse ReadHttpEvents(const HttpClientConfig& config, const HttpAddress& address,
                            const HttpRequest& request, const OnHttpEvent& on_event) {
  return Exchange(config, address, request, &on_event).Run();
}

}  // namespace millrace::inline control
