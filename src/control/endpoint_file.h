// The files under /dev/shm by which programs of a user find the control services of that user's
// runs on this machine, with the keys that control them. Only the user can read them.
#ifndef MILLRACE_CONTROL_ENDPOINT_FILE_H_
#define MILLRACE_CONTROL_ENDPOINT_FILE_H_

#include <string>
#include <vector>

#include "control/http_address.h"
#include "millrace/file_descriptor.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline control {

inline constexpr const char* kEndpointFolder = "/dev/shm";

struct Endpoint {
  HttpAddress address = {};
  bool tls = false;
  std::string node = "", solver = "";
  int pid = 0;
  SecretKey key = {};  // the control key
};

// Exists as long as this object.
class EndpointFile {
 public:
  // Throws Error if it cannot be made.
  explicit EndpointFile(const Endpoint& endpoint, const std::string& folder = kEndpointFolder);
  ~EndpointFile();
  EndpointFile(const EndpointFile&) = delete;
  EndpointFile& operator=(const EndpointFile&) = delete;

 private:
  const std::string path_;
  const FileDescriptor file_;
};

// Returns the services of this user's running processes. Removes what ended processes have left;
// ignores damaged files.
std::vector<Endpoint> FindEndpoints(const std::string& folder = kEndpointFolder);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_ENDPOINT_FILE_H_
