#include "control/http_stream.h"

#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/beast/ssl.hpp>

namespace millrace::inline control {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

class HttpStream::OverTcp : public Connection {
 public:
  explicit OverTcp(beast::tcp_stream stream) : stream_(std::move(stream)) {}

  beast::tcp_stream& tcp() override { return stream_; }
  void Read(std::vector<asio::mutable_buffer> buffers, Done done) override {
    stream_.async_read_some(buffers, std::move(done));
  }
  void Write(std::vector<asio::const_buffer> buffers, Done done) override {
    stream_.async_write_some(buffers, std::move(done));
  }

 private:
  beast::tcp_stream stream_;
};

class HttpStream::OverTls : public Connection {
 public:
  explicit OverTls(Socket socket) : stream_(std::move(socket.stream), *socket.tls) {}

  beast::tcp_stream& tcp() override { return stream_.next_layer(); }
  void Read(std::vector<asio::mutable_buffer> buffers, Done done) override {
    stream_.async_read_some(buffers, std::move(done));
  }
  void Write(std::vector<asio::const_buffer> buffers, Done done) override {
    stream_.async_write_some(buffers, std::move(done));
  }
  void ExpectHost(const std::string& host) override {
    stream_.set_verify_callback(asio::ssl::host_name_verification(host));
  }
  void Handshake(bool is_server, Done done) override {
    stream_.async_handshake(
        is_server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
        [done = std::move(done)](error_code error) { done(error, 0); });
  }
  void Shutdown(Done done) override {
    stream_.async_shutdown([done = std::move(done)](error_code error) { done(error, 0); });
  }

 private:
  beast::ssl_stream<beast::tcp_stream> stream_;
};

HttpStream::HttpStream(Socket socket) {
  if (socket.tls != nullptr) {
    connection_ = std::make_unique<OverTls>(std::move(socket));
  } else {
    connection_ = std::make_unique<OverTcp>(std::move(socket.stream));
  }
}

}  // namespace millrace::inline control
