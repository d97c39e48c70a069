// Requests and responses of the control service, apart from how they travel.
#ifndef MILLRACE_CONTROL_HTTP_MESSAGE_H_
#define MILLRACE_CONTROL_HTTP_MESSAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::inline control {

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";                         // path and query, as sent
  std::map<std::string, std::string> headers = {};  // by name in lower case
  std::string body = "";

  // "" without such a header.
  std::string_view Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
  // The target up to its query.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = "";
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Instead of a body: the events of the run after this one, without end.
  std::optional<uint64_t> events_after = {};
};

// A response of this status, whose body says why: {"error": "one line"}, a control_api::Problem.
HttpResponse ProblemResponse(int status, const std::string& reason);

using HttpDone = std::function<void(HttpResponse)>;
// Answers a request: calls `done` once, at once or later, from any thread. Throws nothing.
using HttpHandler = std::function<void(HttpRequest, HttpDone)>;

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HTTP_MESSAGE_H_
