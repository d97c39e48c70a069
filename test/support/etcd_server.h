// An etcd of Debian for tests: the program, with its data in a folder of its own.
#ifndef MILLRACE_TEST_SUPPORT_ETCD_SERVER_H_
#define MILLRACE_TEST_SUPPORT_ETCD_SERVER_H_

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {

class EtcdServer {
 public:
  // Why there is none; "": there is one.
  static std::string WhyNot() {
    return access("/usr/bin/etcd", X_OK) == 0
               ? ""
               : "there is no /usr/bin/etcd (tools/install-deps --etcd)";
  }

  // It listens at `host`:`port` for clients, and at the next port for other members.
  // `tls`: a folder with certificate.pem and key.pem; "": clients connect without TLS.
  EtcdServer(std::string host, int port, std::string tls = "")
      : host_(std::move(host)), port_(port), tls_(std::move(tls)) {}

  std::string endpoint() const { return StrCat(host_, ":", port_); }

  // In the network namespace of this thread. After Stop: again, with its data.
  void Start() {
    const std::string clients = (tls_.empty() ? "http://" : "https://") + endpoint();
    const std::string members = StrCat("http://", host_, ":", port_ + 1);
    std::vector<std::string> command = {"/usr/bin/etcd",
                                        "--data-dir=" + (data_ / "data"),
                                        "--listen-client-urls=" + clients,
                                        "--advertise-client-urls=" + clients,
                                        "--listen-peer-urls=" + members,
                                        "--initial-advertise-peer-urls=" + members,
                                        "--initial-cluster=default=" + members,
                                        "--logger=zap",
                                        "--log-level=error"};
    if (!tls_.empty()) {
      command.push_back("--cert-file=" + tls_ + "/certificate.pem");
      command.push_back("--key-file=" + tls_ + "/key.pem");
    }
    process_ = std::make_unique<Process>(command);
  }
  void Stop() {
    process_->Signal(SIGTERM);
    process_->Wait();
    process_.reset();
  }

 private:
  const std::string host_;
  const int port_;
  const std::string tls_;
  TempDir data_;
  std::unique_ptr<Process> process_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_ETCD_SERVER_H_
