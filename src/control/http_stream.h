// A TCP connection, with TLS or without, as one type of stream. The templates of Boost.Beast and
// Boost.Asio take half a minute to compile for a type of stream, so they are instantiated for this
// one only. It calls the connection by virtual functions.
#ifndef MILLRACE_CONTROL_HTTP_STREAM_H_
#define MILLRACE_CONTROL_HTTP_STREAM_H_

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace millrace::inline control {

// Models AsyncReadStream and AsyncWriteStream of Boost.Asio. Handlers run in the executor of the
// connection, which has one thread.
class HttpStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Signature = void(boost::system::error_code, size_t);

  struct Socket {
    boost::beast::tcp_stream stream;
    // With TLS, once a handshake has succeeded; outlives the stream. Null: without.
    boost::asio::ssl::context* tls = nullptr;
  };
  explicit HttpStream(Socket socket);

  executor_type get_executor() { return tcp().get_executor(); }
  // For time limits, and to close the connection.
  boost::beast::tcp_stream& tcp() { return connection_->tcp(); }
  // The name that the certificate of the server must have.
  void ExpectHost(const std::string& host) { connection_->ExpectHost(host); }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token)
      -> BOOST_ASIO_INITFN_RESULT_TYPE(Token, Signature) {
    return Start<boost::asio::mutable_buffer>(&Connection::Read, buffers,
                                              std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token)
      -> BOOST_ASIO_INITFN_RESULT_TYPE(Token, Signature) {
    return Start<boost::asio::const_buffer>(&Connection::Write, buffers,
                                            std::forward<Token>(token));
  }
  using HandshakeType = boost::asio::ssl::stream_base::handshake_type;
  // Begin and end TLS. The size that the handler gets has no meaning.
  template <typename Token>
  auto async_handshake(HandshakeType type, Token&& token)
      -> BOOST_ASIO_INITFN_RESULT_TYPE(Token, Signature) {
    return boost::asio::async_initiate<Token, Signature>(
        [this, type](auto handler) { connection_->Handshake(type, Erased(std::move(handler))); },
        token);
  }
  template <typename Token>
  auto async_shutdown(Token&& token) -> BOOST_ASIO_INITFN_RESULT_TYPE(Token, Signature) {
    return boost::asio::async_initiate<Token, Signature>(
        [this](auto handler) { connection_->Shutdown(Erased(std::move(handler))); }, token);
  }

 private:
  using Done = std::function<Signature>;

  // The library exports no name with Boost's types: its implementations are inline, and have none
  // as template arguments.
  class Connection {
   public:
    virtual ~Connection() = default;
    virtual boost::beast::tcp_stream& tcp() = 0;
    virtual void Read(std::vector<boost::asio::mutable_buffer> buffers, Done done) = 0;
    virtual void Write(std::vector<boost::asio::const_buffer> buffers, Done done) = 0;
    // With TLS only.
    virtual void ExpectHost(const std::string& host) { (void)host; }
    virtual void Handshake(HandshakeType type, Done done) { (void)type, (void)done; }
    virtual void Shutdown(Done done) { (void)done; }
  };
  template <bool kTls>
  class Over;
  class OverTls;

  template <typename Handler>
  static Done Erased(Handler handler) {
    const auto shared = std::make_shared<Handler>(std::move(handler));  // it may not be copied
    return [shared](boost::system::error_code error, size_t bytes) {
      // Ends with this call, as what it holds may own the stream.
      Handler once = std::move(*shared);
      once(error, bytes);
    };
  }

  template <typename Buffer, typename Buffers, typename Token>
  auto Start(void (Connection::*start)(std::vector<Buffer>, Done), const Buffers& buffers,
             Token&& token) -> BOOST_ASIO_INITFN_RESULT_TYPE(Token, Signature) {
    std::vector<Buffer> copied(boost::asio::buffer_sequence_begin(buffers),
                               boost::asio::buffer_sequence_end(buffers));
    return boost::asio::async_initiate<Token, Signature>(
        [this, start](auto handler, std::vector<Buffer> all) {
          (connection_.get()->*start)(std::move(all), Erased(std::move(handler)));
        },
        token, std::move(copied));
  }

  std::unique_ptr<Connection> connection_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HTTP_STREAM_H_
