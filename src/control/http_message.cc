#include "control/http_message.h"

#include "base/error.h"
#include "base/text/json.h"

namespace millrace::inline control {

HttpResponse ProblemResponse(int status, const std::string& reason) {
  return {.status = status, .body = "{\"error\":" + JsonText(OneLine(reason)) + "}\n"};
}

}  // namespace millrace::inline control
