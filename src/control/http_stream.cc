#include "control/http_stream.h"

#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/beast/ssl.hpp>
#include <variant>

namespace millrace::inline control {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Tls = beast::ssl_stream<beast::tcp_stream>;

class HttpStream::Connection {
 public:
  explicit Connection(beast::tcp_stream stream) : stream_(std::move(stream)) {}
  Connection(beast::tcp_stream stream, asio::ssl::context* context)
      : stream_(std::in_place_type<Tls>, std::move(stream), *context) {}

  Tls* tls() { return std::get_if<Tls>(&stream_); }
  beast::tcp_stream& tcp() {
    return tls() != nullptr ? tls()->next_layer() : std::get<beast::tcp_stream>(stream_);
  }

 private:
  std::variant<beast::tcp_stream, Tls> stream_;
};

HttpStream::HttpStream(beast::tcp_stream stream)
    : connection_(std::make_unique<Connection>(std::move(stream))) {}

HttpStream::HttpStream(beast::tcp_stream stream, asio::ssl::context* context)
    : connection_(std::make_unique<Connection>(std::move(stream), context)) {}

HttpStream::~HttpStream() = default;

HttpStream::HttpStream(HttpStream&& other) noexcept = default;

beast::tcp_stream& HttpStream::tcp() { return connection_->tcp(); }

void HttpStream::ExpectHost(const std::string& host) {
  connection_->tls()->set_verify_callback(asio::ssl::host_name_verification(host));
}

void HttpStream::Read(std::vector<asio::mutable_buffer> buffers, Done done) {
  if (Tls* const tls = connection_->tls()) return tls->async_read_some(buffers, std::move(done));
  tcp().async_read_some(buffers, std::move(done));
}

void HttpStream::Write(std::vector<asio::const_buffer> buffers, Done done) {
  if (Tls* const tls = connection_->tls()) return tls->async_write_some(buffers, std::move(done));
  tcp().async_write_some(buffers, std::move(done));
}

void HttpStream::Handshake(bool is_server, Done done) {
  connection_->tls()->async_handshake(
      is_server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
      [done = std::move(done)](error_code error) { done(error, 0); });
}

void HttpStream::Shutdown(Done done) {
  connection_->tls()->async_shutdown(
      [done = std::move(done)](error_code error) { done(error, 0); });
}

}  // namespace millrace::inline control
