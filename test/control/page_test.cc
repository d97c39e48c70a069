#include "control/page.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "control/run_report.h"
#include "test/control/fake_run.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(Page, IsReadableWithoutJavaScript) {
  RunStatus status = SomeStatus();
  status.snapshot = "a<b>&c";
  const HttpResponse page = PageResponse(StatusMessage({.node = "a", .cluster = "pair"}, status));
  EXPECT_EQ(page.status, 200);
  for (const char* row :
       {"<th scope=\"row\">state</th><td>training</td>",
        "<th scope=\"row\">iteration</th><td>250 of 1000</td>",
        "<th scope=\"row\">iterations per second</th><td>10</td>",
        "<th scope=\"row\">seconds left</th><td>75</td>",
        "<th scope=\"row\">test net 0: accuracy</th><td>0.75</td>", "<td>a&lt;b>&amp;c</td>"}) {
    EXPECT_CONTAINS(page.body, row);
  }
  EXPECT_CONTAINS(PageResponse({}).body, "needs a token");
}

// The page is small and asks no other host for anything.
TEST(Page, IsComplete) {
  const std::string html = PageResponse({}).body;
  size_t bytes = html.size();
  for (const char* name : {"page.css", "page.js"}) {
    EXPECT_CONTAINS(html, StrCat("page/", name));
    const HttpResponse file = PageFileResponse(name);
    EXPECT_EQ(file.status, 200);
    bytes += file.body.size();
    EXPECT_EQ(file.body.find("https://"), std::string::npos);
  }
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_LT(bytes, 300'000u);
  for (const char* name : {"", "x", "../api.cc", "index.html"}) {
    EXPECT_EQ(PageFileResponse(name).status, 404) << name;
  }
}

}  // namespace
}  // namespace millrace::test
