#include "control/page.h"

#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

// The assembler puts the files into the program; paths are relative to the repository's root.
#define MILLRACE_PAGE_FILE(name, path)                \
  asm(".pushsection .rodata\n" #name                  \
      ":\n"                                           \
      ".incbin \"src/control/page/" path "\"\n" #name \
      "_end:\n"                                       \
      ".byte 0\n.popsection\n");                      \
  extern "C" const char name[], name##_end[]

MILLRACE_PAGE_FILE(millrace_page_html, "index.html");
MILLRACE_PAGE_FILE(millrace_page_css, "page.css");
MILLRACE_PAGE_FILE(millrace_page_js, "page.js");

namespace millrace::inline control {
namespace {

std::string_view Text(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

std::string HtmlText(const std::string& text) {
  std::string escaped;
  for (const char c : OneLine(text)) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string TableOf(const control_api::Status& status) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"state", status.state()},
      {"iteration", StrCat(status.iteration(), " of ", status.max_iteration())},
      {"loss", Number(status.loss())},
      {"learning rate", Number(status.learning_rate())}};
  if (status.has_node()) rows.insert(rows.begin(), {"node", status.node()});
  if (status.has_iterations_per_second()) {
    rows.emplace_back("iterations per second", Number(status.iterations_per_second()));
  }
  if (status.has_remaining_seconds()) {
    rows.emplace_back("seconds left", Number(status.remaining_seconds()));
  }
  for (const control_api::Test& test : status.test()) {
    for (const auto& [name, value] : test.output()) {
      rows.emplace_back(StrCat("test net ", test.net(), ": ", name), Number(value));
    }
  }
  if (status.has_snapshot()) rows.emplace_back("last snapshot", status.snapshot());
  std::string table = "<table><caption>Run</caption>";
  for (const auto& [name, value] : rows) {
    table += StrCat("<tr><th scope=\"row\">", HtmlText(name), "</th><td>", HtmlText(value),
                    "</td></tr>");
  }
  return table + "</table>";
}

}  // namespace

HttpResponse PageResponse(const std::optional<control_api::Status>& status) {
  constexpr std::string_view kPlace = "<!-- status -->";
  std::string html(Text(millrace_page_html, millrace_page_html_end));
  const std::string table =
      status ? TableOf(*status) : "<p>The state of the run needs a token (millrace ctl token).</p>";
  html.replace(html.find(kPlace), kPlace.size(), table);
  return {.type = "text/html; charset=utf-8",
          .body = std::move(html),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                       "'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; "
                       "frame-ancestors 'none'"}}};
}

HttpResponse PageFileResponse(const std::string& name) {
  if (name == "page.css") {
    return {.type = "text/css; charset=utf-8",
            .body = std::string(Text(millrace_page_css, millrace_page_css_end))};
  }
  if (name == "page.js") {
    return {.type = "text/javascript; charset=utf-8",
            .body = std::string(Text(millrace_page_js, millrace_page_js_end))};
  }
  return ProblemResponse(404, "the page has no such file");
}

}  // namespace millrace::inline control
