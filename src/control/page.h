// The page for people, with its files, which are part of the program (src/control/page).
#ifndef MILLRACE_CONTROL_PAGE_H_
#define MILLRACE_CONTROL_PAGE_H_

#include <optional>
#include <string>

#include "control/http_message.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// The page; what it shows without JavaScript is `status`, if any.
HttpResponse PageResponse(const std::optional<control_api::Status>& status);
// "page.css" or "page.js"; status 404 for any other name.
HttpResponse PageFileResponse(const std::string& name);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_PAGE_H_
