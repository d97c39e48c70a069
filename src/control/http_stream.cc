#include "control/http_stream.h"

#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/ssl.hpp>
#include <type_traits>

namespace millrace::inline control {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

template <bool kTls>
class HttpStream::Over : public Connection {
 public:
  template <typename... Arguments>
  explicit Over(Arguments&&... arguments) : stream_(std::forward<Arguments>(arguments)...) {}

  beast::tcp_stream& tcp() override { return beast::get_lowest_layer(stream_); }
  void Read(std::vector<asio::mutable_buffer> buffers, Done done) override {
    stream_.async_read_some(buffers, std::move(done));
  }
  void Write(std::vector<asio::const_buffer> buffers, Done done) override {
    stream_.async_write_some(buffers, std::move(done));
  }

 protected:
  std::conditional_t<kTls, beast::ssl_stream<beast::tcp_stream>, beast::tcp_stream> stream_;
};

class HttpStream::OverTls : public Over<true> {
 public:
  using Over::Over;

  void ExpectHost(const std::string& host) override {
    stream_.set_verify_callback(asio::ssl::host_name_verification(host));
  }
  void Handshake(HandshakeType type, Done done) override {
    stream_.async_handshake(type, [done = std::move(done)](error_code error) { done(error, 0); });
  }
  void Shutdown(Done done) override {
    stream_.async_shutdown([done = std::move(done)](error_code error) { done(error, 0); });
  }
};

HttpStream::HttpStream(Socket socket) {
  if (socket.tls != nullptr) {
    connection_ = std::make_unique<OverTls>(std::move(socket.stream), *socket.tls);
  } else {
    connection_ = std::make_unique<Over<false>>(std::move(socket.stream));
  }
}

}  // namespace millrace::inline control
