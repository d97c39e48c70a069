#include "control/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "control/http_client.h"
#include "millrace/file_descriptor.h"
#include "test/control/fake_run.h"
#include "test/support/eventually.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// A connection that sends what a test says and reads what comes.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool is_open() const { return is_open_; }
  // False if the other end has closed the connection.
  bool Send(const std::string& text) {
    return send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // All that comes until the other end closes the connection, or `until` came.
  std::string Read(const std::string& until = "") {
    std::string text;
    char bytes[4096];
    while (until.empty() || text.find(until) == std::string::npos) {
      const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      text.append(bytes, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  FileDescriptor socket_;
  bool is_open_ = false;
};

// A server that answers with what it was asked.
class Server {
 public:
  explicit Server(HttpServerConfig config = {}) {
    config.address = *ParseHttpAddress("127.0.0.1:0");
    server_ = std::make_unique<HttpServer>(
        config,
        [](HttpRequest request, const HttpDone& done) {
          if (request.path() == "/events")
            return done({.type = "text/event-stream", .events_after = 0});
          if (request.path() == "/later") {
            std::thread([done] { done({.body = "later"}); }).detach();
            return;
          }
          done({.body = request.method + " " + request.target + " " + request.body});
        },
        [this] { return std::pair(run_.status(), std::string("{}")); });
  }
  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  int port() const { return server_->address().port; }
  FakeRun& run() { return run_; }
  void Reset() { server_.reset(); }

 private:
  FakeRun run_;
  std::unique_ptr<HttpServer> server_;
};

const std::string kGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(HttpServerTest, AnswersRequests) {
  Server server;
  const HttpResponse response =
      SendHttp({}, server->address(), {.method = "POST", .target = "/a?b", .body = "text"});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "POST /a?b text");
  EXPECT_EQ(SendHttp({}, server->address(), {.target = "/later"}).body, "later");
}

// Requests of a connection are answered in their order, also if they come together.
TEST(HttpServerTest, KeepsConnections) {
  Server server;
  RawConnection connection(server.port());
  connection.Send(
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /later HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string text = connection.Read();
  EXPECT_LT(text.find("GET /1 "), text.find("later"));
  EXPECT_LT(text.find("later"), text.find("GET /3 "));
  EXPECT_NE(text.find("GET /3 "), std::string::npos);
}

TEST(HttpServerTest, RefusesWhatIsNoRequest) {
  Server server({.max_body_bytes = 100});
  for (const std::string& text :
       {std::string("nonsense\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        "GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX: " + std::string(40'000, 'a') + "\r\n\r\n",
        std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), std::string(1000, '\0')}) {
    RawConnection connection(server.port());
    connection.Send(text);
    EXPECT_EQ(connection.Read().substr(0, 12), "HTTP/1.1 400") << text.substr(0, 60);
  }
  RawConnection large(server.port());
  large.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n");
  EXPECT_EQ(large.Read().substr(0, 12), "HTTP/1.1 413");
  EXPECT_EQ(server->counters().malformed, 7u);
  EXPECT_EQ(SendHttp({}, server->address(), {.target = "/x"}).body, "GET /x ");
}

// Clients that send a request byte by byte, or nothing, lose their connection.
TEST(HttpServerTest, ClosesSlowConnections) {
  Server server({.request_seconds = 0.2, .idle_seconds = 0.2});
  RawConnection silent(server.port());
  EXPECT_EQ(silent.Read(), "");
  RawConnection slow(server.port());
  bool is_open = true;
  for (int i = 0; i < 100'000 && is_open; ++i) {
    is_open = slow.Send(i == 0 ? "GET / HTTP/1.1\r\nX: " : "a");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(is_open);
  EXPECT_TRUE(Eventually([&] { return server->counters().connections == 0; }));
}

TEST(HttpServerTest, ServesBesideManyIdleConnections) {
  Server server({.max_connections = 101});
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<RawConnection>(server.port()));
    ASSERT_TRUE(idle.back()->is_open());
  }
  ASSERT_TRUE(Eventually([&] { return server->counters().connections == 100; }));
  {
    RawConnection last(server.port());
    last.Send(kGet);
    EXPECT_CONTAINS(last.Read("GET /x"), "HTTP/1.1 200");
  }
  ASSERT_TRUE(Eventually([&] { return server->counters().connections == 100; }));
  EXPECT_EQ(server->counters().replaced, 0u);
  idle.clear();
  ASSERT_TRUE(Eventually([&] { return server->counters().connections == 0; }));
}

// A further connection takes the place of the one that has been without a request for longest.
TEST(HttpServerTest, ClosesTheLongestIdleOfTooManyConnections) {
  MetricsRegistry metrics;
  Server server({.max_connections = 3, .metrics = &metrics});
  RawConnection first(server.port()), second(server.port()), third(server.port());
  for (RawConnection* each : {&first, &second, &third}) {
    each->Send(kGet);
    EXPECT_CONTAINS(each->Read("GET /x"), "HTTP/1.1 200");
  }
  first.Send(kGet);  // now the second has waited for longest
  EXPECT_CONTAINS(first.Read("GET /x"), "HTTP/1.1 200");
  RawConnection fourth(server.port());
  fourth.Send(kGet);
  EXPECT_CONTAINS(fourth.Read("GET /x"), "HTTP/1.1 200");
  EXPECT_EQ(second.Read(), "");
  for (RawConnection* each : {&first, &third}) {
    each->Send(kGet);
    EXPECT_CONTAINS(each->Read("GET /x"), "HTTP/1.1 200");
  }
  EXPECT_EQ(server->counters().replaced, 1u);
  EXPECT_EQ(server->counters().too_many, 0u);
  EXPECT_TRUE(Eventually([&] {
    const MetricsReading reading = metrics.Read();
    return reading.Value("run", "connections") == 3 &&
           reading.Value("run", "connections_closed") == 1;
  }));
}

// Connections with a request in progress are not closed for others.
TEST(HttpServerTest, RefusesConnectionsIfAllHaveRequests) {
  Server server({.max_connections = 2});
  RawConnection first(server.port()), second(server.port());
  for (RawConnection* each : {&first, &second}) {
    each->Send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_CONTAINS(each->Read("event: progress"), "HTTP/1.1 200");
  }
  RawConnection third(server.port());
  EXPECT_EQ(third.Read(), "");
  EXPECT_EQ(server->counters().too_many, 1u);
  EXPECT_EQ(server->counters().replaced, 0u);
  EXPECT_CONTAINS(first.Read("event: progress"), "event: progress");
}

TEST(HttpServerTest, StreamsEvents) {
  Server server({.progress_seconds = 0.1});
  std::vector<std::string> kinds;
  int progress = 0;
  ReadHttpEvents({}, server->address(), {.target = "/events"},
                 [&](std::string_view kind, std::string_view data) {
                   EXPECT_EQ(data, "{}");
                   if (kind == "progress") ++progress;
                   if (kind != "progress") kinds.emplace_back(kind);
                   if (progress == 2) server.run().Set(SomeStatus());
                   return kinds.size() < 4 || progress < 3;
                 });
  EXPECT_EQ(kinds, (std::vector<std::string>{"state", "test", "snapshot", "state"}));
}

TEST(HttpServerTest, LimitsTheEventStreams) {
  Server server({.max_event_streams = 1});
  RawConnection first(server.port()), second(server.port());
  first.Send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_CONTAINS(first.Read("event: progress"), "HTTP/1.1 200");
  second.Send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_CONTAINS(second.Read(), "HTTP/1.1 503");
}

// Connections of every kind end with the server, and answers that come later are dropped.
TEST(HttpServerTest, StopsAtOnce) {
  Server server;
  RawConnection idle(server.port()), half(server.port()), events(server.port());
  half.Send("GET / HTTP");
  events.Send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  events.Read("event: progress");
  for (int i = 0; i < 20; ++i) {
    RawConnection late(server.port());
    late.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  server.Reset();
  EXPECT_EQ(idle.Read(), "");
  EXPECT_EQ(half.Read(), "");
  events.Read();
}

TEST(HttpServerTest, NamesAnAddressThatIsTaken) {
  Server server;
  HttpServerConfig config{.address = server->address()};
  EXPECT_CONTAINS(
      ErrorOf([&] { HttpServer(config, nullptr, nullptr); }),
      StrCat("control service at 127.0.0.1:", server.port(), ": Address already in use"));
}

TEST(HttpServerTest, SpeaksTls) {
  // The certificate is of localhost and 127.0.0.1, signed by itself, valid until 2126.
  const std::string certificate = "test/control/tls/certificate.pem";
  const std::string key = "test/control/tls/key.pem";
  Server server({.certificate = certificate, .private_key = key});
  const HttpClientConfig client{.tls = true, .authorities = certificate};
  EXPECT_EQ(SendHttp(client, server->address(), {.target = "/x"}).body, "GET /x ");
  // Without the authority, or without TLS, there is no answer.
  EXPECT_CONTAINS(ErrorOf([&] { SendHttp({.tls = true}, server->address(), {.target = "/x"}); }),
                  "certificate verify failed");
  EXPECT_CONTAINS(ErrorOf([&] { SendHttp({}, server->address(), {.target = "/x"}); }), "127.0.0.1");
  const auto with = [](const std::string& certificate, const std::string& key) {
    return ErrorOf([&] {
      HttpServer(
          {.address = *ParseHttpAddress("0"), .certificate = certificate, .private_key = key},
          nullptr, nullptr);
    });
  };
  EXPECT_CONTAINS(with("none.pem", key), "none.pem: ");
  EXPECT_CONTAINS(with(certificate, "none.pem"), "none.pem: ");
  EXPECT_CONTAINS(with(key, key), "expected a certificate");
}

TEST(HttpClientTest, SaysThatNobodyAnswers) {
  int port = 0;
  {
    Server server;
    port = server.port();
  }
  EXPECT_EQ(ErrorOf([&] { SendHttp({}, *ParseHttpAddress(StrCat(port)), {}); }),
            StrCat("control service at 127.0.0.1:", port, ": Connection refused"));
  FileDescriptor deaf(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(deaf.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(deaf.get(), 1), 0);
  ASSERT_EQ(getsockname(deaf.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_CONTAINS(ErrorOf([&] {
                    SendHttp({.seconds = 0.1}, *ParseHttpAddress(StrCat(ntohs(address.sin_port))),
                             {});
                  }),
                  "timeout");
}

}  // namespace
}  // namespace millrace::test
