// Requests to the control service: the first line is method and target, then come header lines, an
// empty line and the body. Each gets one answer, and none that is not authorised reaches the run.
#include "control/api.h"
#include "control/http_address.h"
#include "millrace/run.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

class CountingRun : public RunHandle {
 public:
  RunStatus status() const override { return {}; }
  void Pause() override { ++asked; }
  void Resume() override { ++asked; }
  void Snapshot() override { ++asked; }
  void Test() override { ++asked; }
  void SetLearningRate(float rate) override { asked += rate >= 0 ? 1 : 1000; }
  void Stop() override { ++asked; }
  int asked = 0;
};

HttpRequest ParseRequest(const std::string& input) {
  HttpRequest request;
  size_t at = 0;
  const auto line = [&] {
    const size_t end = std::min(input.find('\n', at), input.size());
    const std::string text = input.substr(at, end - at);
    at = std::min(end + 1, input.size());
    return text;
  };
  const std::string first = line();
  request.method = first.substr(0, first.find(' '));
  request.target =
      first.size() > request.method.size() ? first.substr(request.method.size() + 1) : "";
  for (std::string header; !(header = line()).empty();) {
    const size_t colon = header.find(':');
    request.headers[header.substr(0, colon)] =
        colon < header.size() ? header.substr(colon + 1) : "";
  }
  request.body = input.substr(at);
  return request;
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string token =
      "host:localhost\nauthorization:Bearer " + ControlToken(SecretKey()) + "\n";
  HttpRequest is_signed{
      .method = "POST", .target = "/v1/pause", .headers = {{"host", "localhost"}}};
  Sign(SecretKey(), 1000, Nonce{}, &is_signed);
  std::string with_signature = "POST /v1/pause\n";
  for (const auto& [name, value] : is_signed.headers) with_signature += name + ":" + value + "\n";
  return {"GET /v1/status\nhost:127.0.0.1:80\n\n",
          "GET /metrics\nhost:[::1]:80\naccept:application/openmetrics-text\n\n",
          "GET /v1/events\nhost:localhost\nlast-event-id:17\n\n",
          "GET /openapi.json\nhost:localhost\norigin:http://localhost\n\n",
          "POST /v1/learning_rate\n" + token + "\n{\"rate\":0.5}",
          "POST /v1/commands/echo\n" + token + "\n{\"a\":[1,null,\"x\"]}",
          "POST /v1/nodes/b/learning_rate\n" + token + "\n{\"rate\":0.5}",
          with_signature + "\n"};
}

bool Target(const std::string& input) {
  CountingRun run;
  const SecretKey key;
  AccessCheck access(key, {"127.0.0.1:8400", true, false});
  ControlApiConfig config;
  config.nodes = {{"a", ""}, {"b", "10.0.0.1:1"}};
  config.unix_seconds = [] { return 1000.0; };
  config.start_command = config.start_forward = [](const std::function<void()>& task) {
    task();
    return true;
  };
  config.send = [](const std::string&, HttpRequest) { return HttpResponse(); };
  config.commands = {
      {.name = "echo", .help = "", .run = [](const ControlCall& call) { return call.arguments; }}};
  ControlApi api(config, &run, &access);
  int answers = 0, status = 0;
  const HttpRequest request = ParseRequest(input);
  api.Handle(request, [&](const HttpResponse& response) {
    ++answers;
    status = response.status;
  });
  const bool may_act = request.headers.count("authorization") != 0 ||
                       request.headers.count("millrace-signature") != 0;
  if (run.asked > (may_act && status == 200 ? 1 : 0)) return false;
  if (const auto address = ParseHttpAddress(input)) {
    if (ParseHttpAddress(address->text())->text() != address->text()) return false;
  }
  return answers == 1 && status >= 200 && status < 600;
}

}  // namespace millrace::fuzz
