#include "cli/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "verdict_samples.h"

namespace musacoder::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(const std::vector<judge::Verdict>& verdicts, const nlohmann::json& extra = nlohmann::json::object()) {
  HtmlReport report("a <b>title</b>");
  for (const auto& verdict : verdicts) {
    nlohmann::json row = judge::to_json(verdict);
    row.update(extra);
    auto parsed = judge::row_from_text(row.dump());
    EXPECT_TRUE(parsed.has_value());
    if (parsed) report.add(std::move(*parsed));
  }
  return report.page();
}

std::string block(const std::string& page, const std::string& id) {
  const std::string open = "<script type=application/json id=" + id + ">";
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(Escape, Html) {
  EXPECT_EQ(escape_html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(escape_html("\xff"), "\xEF\xBF\xBD");
}

TEST(Escape, ScriptJson) {
  const std::string safe = escape_script_json(nlohmann::json("</script><!--&").dump());
  EXPECT_EQ(safe.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(safe), "</script><!--&");
}

TEST(HtmlReport, HoldsEveryVerdictAsReadableJson) {
  const auto verdicts = judge::samples::every_status();
  const std::string page = page_of(verdicts);
  const auto rows = nlohmann::json::parse(block(page, "rows"));
  ASSERT_EQ(rows.size(), verdicts.size());
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(rows[i]["status"], verdicts[i].status);
    const auto detail = nlohmann::json::parse(block(page, "d" + std::to_string(i)));
    EXPECT_EQ(detail["verdict"], judge::to_json(verdicts[i]));
    EXPECT_THAT(detail["feedback_text"].get<std::string>(), HasSubstr(verdicts[i].status));
  }
}

TEST(HtmlReport, HostileTextNeverBecomesMarkup) {
  std::vector<judge::Verdict> verdicts;
  for (std::uint64_t seed = 0; seed < 100; ++seed) verdicts.push_back(judge::samples::random_verdict(seed));
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
  verdicts[0].environment = {{"torch", evil}};
  verdicts[0].task = verdicts[0].cause = evil;
  const std::string page = page_of(verdicts, {{"candidate", evil}, {"run", evil}, {"level", evil}});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("<title>a &lt;b&gt;title&lt;/b&gt;</title>"));
  // Scripts: one JSON block for the rows, one a verdict, one program.
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, verdicts.size() + 2);
}

TEST(HtmlReport, NeedsNothingFromOutside) {
  const std::string page = page_of(judge::samples::every_status());
  for (const char* reference : {"http://", "https://", "src=", "<link", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(reference))) << reference;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(HtmlReport, LongTextsAreCut) {
  judge::Verdict v = judge::samples::verdict_of("compile_error:nvcc");
  v.builds[0].log = std::string(10 << 20, 'x');
  const std::string page = page_of({v}, {{"candidate", std::string(10 << 20, 'y')}});
  EXPECT_LT(page.size(), 500'000u);
  EXPECT_THAT(page, HasSubstr("bytes left out"));
}

}  // namespace
}  // namespace musacoder::cli
