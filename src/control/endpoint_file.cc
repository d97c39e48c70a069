#include "control/endpoint_file.h"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/private_file.h"
#include "base/process_identity.h"
#include "base/text/format.h"
#include "control/access.h"
#include "control/run_report.h"
#include "proto/control_files.pb.h"
#include "segment/auth/key_file.h"

namespace millrace::inline control {
namespace {

constexpr const char* kPrefix = "millrace_control.";
constexpr size_t kMaxBytes = 64 << 10;

std::string ReadAll(int fd) {
  std::string text(kMaxBytes, '\0');
  const ssize_t read = pread(fd, text.data(), text.size(), 0);
  text.resize(read > 0 ? static_cast<size_t>(read) : 0);
  return text;
}

void WriteAll(int fd, const std::string& text, const std::string& path) {
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw Error(path, ": cannot be written: ", ErrnoText(errno));
  }
}

// None: damaged, of another user, or of a process that has ended.
std::optional<Endpoint> ReadEndpoint(const std::string& path) {
  const std::optional<FoundFile> found = FindFile(path);
  if (!found || found->status.st_uid != geteuid() || (found->status.st_mode & 077) != 0) return {};
  const FileDescriptor file = OpenFound(*found, path);
  control_files::Endpoint message;
  if (!google::protobuf::util::JsonStringToMessage(ReadAll(file.get()), &message).ok()) return {};
  if (!IsAlive({message.pid(), message.start_time()})) {
    UnlinkIfSame(found->at.get(), path);
    return {};
  }
  const std::optional<HttpAddress> address = ParseHttpAddress(message.address());
  if (!address) return {};
  Endpoint endpoint{.address = *address,
                    .tls = message.tls(),
                    .node = message.node(),
                    .solver = message.solver(),
                    .pid = message.pid(),
                    .key = ParseKey(message.key(), path)};
  return endpoint;
}

FileDescriptor Create(const std::string& folder, const std::string& path) {
  FileDescriptor file(CreateUnnamed(folder));
  if (file.get() < 0) throw Error(path, ": cannot be created: ", ErrnoText(errno));
  return file;
}

}  // namespace

EndpointFile::EndpointFile(const Endpoint& endpoint, const std::string& folder)
    : path_(StrCat(folder, "/", kPrefix, getpid(), ".", endpoint.address.port)),
      file_(Create(folder, path_)) {
  const ProcessIdentity self = ThisProcess();
  control_files::Endpoint message;
  message.set_address(endpoint.address.text());
  message.set_tls(endpoint.tls);
  message.set_node(endpoint.node);
  message.set_solver(endpoint.solver);
  message.set_pid(self.pid);
  message.set_start_time(self.start_time);
  message.set_key(Hex(endpoint.key.bytes()));
  WriteAll(file_.get(), JsonOf(message), path_);
  if (LinkUnnamed(file_.get(), path_)) return;
  if (errno == EEXIST) {  // left by a process that had this pid
    if (const auto found = FindFile(path_)) UnlinkIfSame(found->at.get(), path_);
    if (LinkUnnamed(file_.get(), path_)) return;
  }
  throw Error(path_, ": cannot be created: ", ErrnoText(errno));
}

EndpointFile::~EndpointFile() { UnlinkIfSame(file_.get(), path_); }

std::vector<Endpoint> FindEndpoints(const std::string& folder) {
  std::set<std::string> paths;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().filename().string().starts_with(kPrefix)) paths.insert(file.path().string());
  }
  std::vector<Endpoint> endpoints;
  for (const std::string& path : paths) {
    try {
      if (auto endpoint = ReadEndpoint(path)) endpoints.push_back(std::move(*endpoint));
    } catch (const Error&) {  // damaged, or gone by now
    }
  }
  return endpoints;
}

}  // namespace millrace::inline control
