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
  EtcdServer(std::string host, int port) : host_(std::move(host)), port_(port) {}

  std::string endpoint() const { return StrCat(host_, ":", port_); }

  // In the network namespace of this thread. After Stop: again, with its data.
  void Start() {
    const std::string clients = "http://" + endpoint();
    const std::string members = StrCat("http://", host_, ":", port_ + 1);
    process_ = std::make_unique<Process>(std::vector<std::string>{
        "/usr/bin/etcd", "--data-dir=" + (data_ / "data"), "--listen-client-urls=" + clients,
        "--advertise-client-urls=" + clients, "--listen-peer-urls=" + members,
        "--initial-advertise-peer-urls=" + members, "--initial-cluster=default=" + members,
        "--logger=zap", "--log-level=error"});
  }
  void Stop() {
    process_->Signal(SIGTERM);
    process_->Wait();
    process_.reset();
  }

 private:
  const std::string host_;
  const int port_;
  TempDir data_;
  std::unique_ptr<Process> process_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_ETCD_SERVER_H_
