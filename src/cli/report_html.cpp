#include "cli/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/terminal.h"
#include "cli/report_assets.h"
#include "judge/feedback.h"
#include "judge/metrics.h"
#include "judge/statuses.h"

namespace musacoder::cli {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxText = 16u << 10;     // one text of a verdict
constexpr std::size_t kMaxSource = 128u << 10;  // one candidate
constexpr std::size_t kMaxList = 200;           // items of one list
constexpr std::size_t kMaxExtra = 200;          // one extra key's value

constexpr const char* kClasses[] = {"ok", "compile_error", "runtime_error", "correctness_error", "cheating",
                                    "unsupported", "inconclusive", "invalid_task", "infra"};

std::string cut(const std::string& text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + fmt::format("\n… {} bytes left out", text.size() - end);
}

// Cuts long texts and lists anywhere inside a verdict.
void shorten(json& value) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().size() > kMaxText) value = cut(value.get<std::string>(), kMaxText);
  } else if (value.is_array()) {
    if (value.size() > kMaxList) value.erase(value.begin() + kMaxList, value.end());
    for (auto& item : value) shorten(item);
  } else if (value.is_object()) {
    for (auto& [key, item] : value.items()) shorten(item);
  }
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string colour(const std::string& status) {
  const std::string name = judge::status_class(status);
  for (const char* known : kClasses)
    if (name == known) return fmt::format("var(--{})", name);
  return "var(--infra)";
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

std::string percent(const std::optional<double>& value) { return value ? fmt::format("{:.1f} %", 100 * *value) : "–"; }

std::string tile(const std::string& value, const std::string& name, const std::string& small = "") {
  return fmt::format("<div class=tile><b>{}</b><span>{}</span>{}</div>\n", escape_html(value), escape_html(name),
                     small.empty() ? "" : "<small>" + escape_html(small) + "</small>");
}

std::string bar(const std::string& name, double share, const std::string& value, const std::string& colour_of,
                double tail_share = 0) {
  return fmt::format("<span class=name>{}</span><span class=track>{}<i style=\"width:{:.2f}%;background:{}\"></i></span>"
                     "<span class=val>{}</span>\n",
                     escape_html(name),
                     tail_share > 0 ? fmt::format("<i class=tail style=\"width:{:.2f}%;background:{}\"></i>", 100 * tail_share, colour_of)
                                    : "",
                     100 * share, colour_of, escape_html(value));
}

}  // namespace

struct HtmlReport::Impl {
  std::string title;
  std::vector<json> rows;              // what the table shows
  std::vector<std::string> details;    // JSON text of each row's evidence
  judge::Metrics metrics;
  std::vector<double> totals;
  std::map<std::string, std::vector<double>> stages;
  std::map<std::string, std::map<std::string, std::size_t>> environments;
  std::map<std::string, std::size_t> devices;
  std::size_t source_bytes = 0, sources_left_out = 0;

  std::string tiles(const judge::GroupMetrics& all) const;
  std::string status_chart(const judge::GroupMetrics& all) const;
  std::string stage_chart() const;
  std::string level_table(const judge::MetricsReport& report) const;
  std::string subtitle() const;
};

HtmlReport::HtmlReport(std::string title) : impl_(std::make_unique<Impl>()) { impl_->title = std::move(title); }
HtmlReport::~HtmlReport() = default;

void HtmlReport::add(judge::VerdictRow row) {
  const judge::Verdict& v = row.verdict;
  const std::string candidate = judge::row_text(row, "candidate");
  judge::FeedbackOptions options;
  if (!candidate.empty()) options.sources["candidate.py"] = candidate;
  const judge::Feedback feedback = judge::make_feedback(v, options);

  std::string levels;
  for (const auto& level : v.levels)
    levels += level.state == judge::LevelState::kPassed ? 'y' : level.state == judge::LevelState::kFailed ? 'n' : 'o';
  json verdict = judge::to_json(v);

  // Keys of the batch row that are no part of a verdict and short enough to show.
  json extra = json::object();
  std::string more;
  if (row.json)
    for (const auto& [key, value] : row.json->items()) {
      if (verdict.contains(key) || key == "candidate" || key == "reference" || key == "row_key" || key == "code" || value.is_null()) continue;
      std::string text = value.is_string() ? value.get<std::string>() : dump(value);
      if (text.size() > kMaxExtra) text = base::ellipsize(base::printable(text, false), static_cast<int>(kMaxExtra));
      more += text + " ";
      extra[key] = std::move(text);
    }
  std::string label;                   // what tells candidates for one task apart
  for (const char* key : {"name", "run", "model", "source", "sample"})
    if (auto it = extra.find(key); it != extra.end() && label.size() < 80)
      label += (label.empty() ? "" : " · ") + base::ellipsize(base::printable(it->get<std::string>(), false), 60);
  auto total = v.seconds.find("total");
  auto finite = [](const std::optional<double>& value) { return value && std::isfinite(*value) ? json(*value) : json(nullptr); };
  impl_->rows.push_back({{"task", v.task},
                         {"label", label},
                         {"level", row.level},
                         {"status", v.status},
                         {"cause", base::ellipsize(base::printable(v.cause, false), 240)},
                         {"levels", levels},
                         {"trials", !v.trials.empty()},
                         {"q", finite(v.q)},
                         {"reward", finite(v.reward)},
                         {"speedup", finite(v.speedup_eager)},
                         {"seconds", total == v.seconds.end() ? json(nullptr) : finite(total->second)},
                         {"more", more}});

  shorten(verdict);
  json detail = {{"verdict", std::move(verdict)},
                 {"feedback", judge::to_json(feedback)},
                 {"feedback_text", judge::feedback_text(feedback)},
                 {"extra", std::move(extra)}};
  const std::size_t size = std::min(candidate.size(), kMaxSource);
  if (!candidate.empty() && impl_->source_bytes + size <= kSourceBudget) {
    impl_->source_bytes += size;
    detail["source"] = cut(candidate, kMaxSource);
  } else if (!candidate.empty()) {
    ++impl_->sources_left_out;
    detail["source_left_out"] = true;
  }
  impl_->details.push_back(escape_script_json(dump(detail)));

  if (total != v.seconds.end() && std::isfinite(total->second)) impl_->totals.push_back(total->second);
  for (const auto& [stage, seconds] : v.seconds)
    if (stage != "total" && std::isfinite(seconds)) impl_->stages[stage].push_back(std::max(0.0, seconds));
  for (const auto& [key, value] : v.environment) ++impl_->environments[key][value];
  ++impl_->devices[fmt::format("{} ({})", v.backend, v.gpu)];
  impl_->metrics.add(judge::sample_of(row));
}

std::string HtmlReport::Impl::subtitle() const {
  std::vector<std::string> parts = {fmt::format("{} verdicts", rows.size())};
  for (const auto& [device, count] : devices)
    if (parts.size() < 4) parts.push_back(device);
  for (const char* key : {"torch", "nvcc", "python"})
    if (auto it = environments.find(key); it != environments.end() && !it->second.empty() && !it->second.begin()->first.starts_with('/'))
      parts.push_back(fmt::format("{} {}", key, base::ellipsize(it->second.begin()->first, 40)));
  return fmt::format("{}", fmt::join(parts, " · "));
}

std::string HtmlReport::Impl::tiles(const judge::GroupMetrics& all) const {
  std::string out = "<section class=tiles aria-label=\"Summary\">\n";
  const auto share = [&](std::size_t part, std::size_t whole) {
    return whole ? percent(static_cast<double>(part) / static_cast<double>(whole)) : std::string("–");
  };
  out += tile(std::to_string(all.samples), "verdicts", fmt::format("{} tasks", all.tasks));
  out += tile(std::to_string(all.verified), "verified", share(all.verified, all.decided) + " of decided");
  for (const auto& [k, mean] : all.pass_at)
    out += tile(percent(mean.value), fmt::format("Pass@{}", k),
                mean.tasks > 1 && mean.value ? fmt::format("± {:.1f} % over {} tasks", 100 * mean.standard_error, mean.tasks)
                                             : fmt::format("over {} tasks", mean.tasks));
  out += tile(all.mean_reward ? fmt::format("{:+.2f}", *all.mean_reward) : "–", "mean reward", "nulls left out");
  if (all.faster_eager) out += tile(percent(all.faster_eager), "faster than eager", "> 1.1 ×");
  if (all.faster_compile) out += tile(percent(all.faster_compile), "faster than compile", "> 1.1 ×");
  out += tile(std::to_string(all.nulls), "not decided", share(all.nulls, all.samples) + " of verdicts");
  if (!totals.empty())
    out += tile(base::human_seconds(quantile(totals, 0.5)), "median verdict", "p95 " + base::human_seconds(quantile(totals, 0.95)));
  return out + "</section>\n";
}

std::string HtmlReport::Impl::status_chart(const judge::GroupMetrics& all) const {
  std::string out = "<section class=card><h2>What became of the candidates</h2>\n<div class=mix aria-hidden=true>";
  auto segment = [&](const std::string& name, std::size_t count) {
    out += fmt::format("<i style=\"flex:{} 0 0;background:{}\" title=\"{}: {}\"></i>", count, colour(name), escape_html(name), count);
  };
  for (const char* name : kClasses)
    if (auto it = all.classes.find(name); it != all.classes.end()) segment(it->first, it->second);
  for (const auto& [name, count] : all.classes)
    if (std::find(std::begin(kClasses), std::end(kClasses), name) == std::end(kClasses)) segment(name, count);
  out += "</div>\n<div class=bars>\n";
  std::vector<std::pair<std::size_t, std::string>> statuses;
  for (const auto& [status, count] : all.statuses) statuses.emplace_back(count, status);
  std::stable_sort(statuses.begin(), statuses.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::size_t shown = 0, rest = 0, rest_kinds = 0;
  for (const auto& [count, status] : statuses) {
    if (shown++ >= 14) {
      rest += count;
      ++rest_kinds;
      continue;
    }
    const double share = static_cast<double>(count) / static_cast<double>(all.samples);
    out += bar(base::ellipsize(base::printable(status, false), 60), share, fmt::format("{} · {:.1f} %", count, 100 * share), colour(status));
  }
  if (rest) out += bar(fmt::format("{} more statuses", rest_kinds), static_cast<double>(rest) / static_cast<double>(all.samples),
                       std::to_string(rest), "var(--infra)");
  return out + "</div></section>\n";
}

std::string HtmlReport::Impl::stage_chart() const {
  if (stages.empty()) return "";
  struct Stage {
    std::string name;
    double median, p95, sum;
  };
  std::vector<Stage> list;
  double longest = 0, all = 0;
  for (const auto& [name, values] : stages) {
    Stage stage{name, quantile(values, 0.5), quantile(values, 0.95), 0};
    for (double value : values) stage.sum += value;
    longest = std::max(longest, stage.p95);
    all += stage.sum;
    list.push_back(stage);
  }
  std::stable_sort(list.begin(), list.end(), [](const Stage& a, const Stage& b) { return a.sum > b.sum; });
  std::string out = "<section class=card><h2>Where the time went</h2>\n<div class=bars>\n";
  for (const Stage& stage : list)
    out += bar(base::printable(stage.name, false), longest > 0 ? stage.median / longest : 0,
               fmt::format("{}, p95 {}, {:.0f} %", base::human_seconds(stage.median), base::human_seconds(stage.p95),
                           all > 0 ? 100 * stage.sum / all : 0),
               "var(--accent)", longest > 0 ? stage.p95 / longest : 0);
  return out + "</div><p class=note>Median (full bar) and 95th percentile (light bar) of the verdicts that had the stage; "
               "the percentage is the stage's share of all time.</p></section>\n";
}

std::string HtmlReport::Impl::level_table(const judge::MetricsReport& report) const {
  std::string out = "<section class=card><h2>By level</h2><div class=scroll><table><thead><tr><th scope=col>level</th>";
  auto head = [&](const std::string& name) { out += fmt::format("<th scope=col class=num>{}</th>", escape_html(name)); };
  for (const char* name : {"tasks", "verdicts", "verified", "not decided"}) head(name);
  for (const auto& [k, mean] : report.overall.pass_at) head(fmt::format("Pass@{}", k));
  for (const auto& [k, mean] : report.overall.avg_at) head(fmt::format("Avg@{}", k));
  head("faster, eager");
  head("faster, compile");
  head("mean reward");
  out += "</tr></thead><tbody>\n";
  auto row = [&](const judge::GroupMetrics& group, const char* style) {
    out += fmt::format("<tr{}><td>{}</td>", style, escape_html(group.name));
    auto cell = [&](const std::string& text) { out += fmt::format("<td class=num>{}</td>", escape_html(text)); };
    for (std::size_t count : {group.tasks, group.samples, group.verified, group.nulls}) cell(std::to_string(count));
    for (const auto& [k, mean] : group.pass_at) cell(percent(mean.value));
    for (const auto& [k, mean] : group.avg_at) cell(percent(mean.value));
    cell(percent(group.faster_eager));
    cell(percent(group.faster_compile));
    cell(group.mean_reward ? fmt::format("{:+.2f}", *group.mean_reward) : "–");
    out += "</tr>\n";
  };
  for (const auto& group : report.levels) row(group, "");
  row(report.overall, " class=total");
  out += "</tbody></table></div><p class=note>Rates are over decided verdicts; infra, unsupported, inconclusive and invalid_task say "
         "nothing about a candidate.";
  if (!report.overall.measured_eager && !report.overall.measured_compile)
    out += " No times were measured here, so there is no Faster rate.";
  return out + "</p></section>\n";
}

std::string HtmlReport::page() const {
  const judge::MetricsReport report = impl_->metrics.report();
  std::string out =
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n";
  out += fmt::format("<title>{}</title>\n<style>{}</style></head>\n<body><main>\n", escape_html(impl_->title), kReportCss);
  out += fmt::format("<h1>{}</h1>\n<p class=sub>{}</p>\n", escape_html(impl_->title), escape_html(impl_->subtitle()));
  out += impl_->tiles(report.overall);
  out += "<div class=two>\n" + impl_->status_chart(report.overall) + impl_->stage_chart() + "</div>\n";
  out += impl_->level_table(report);
  out +=
      "<section class=\"card long\"><h2 id=verdicts>Verdicts</h2>\n"
      "<noscript><p class=note>The table needs JavaScript; the figures above do not.</p></noscript>\n"
      "<div class=controls><input id=search type=search placeholder=\"Search task, status, cause, row keys ( / )\" aria-label=\"Search verdicts\">"
      "<select id=status aria-label=\"Status\"><option value=\"\">every status</option></select>"
      "<select id=level aria-label=\"Level\"><option value=\"\">every level</option></select></div>\n"
      "<div class=chips id=chips role=group aria-label=\"Filter by class\"></div>\n"
      "<div class=scroll><table id=list aria-labelledby=verdicts><thead><tr>";
  for (const auto& [key, name, number] : {std::tuple{"task", "task", false}, std::tuple{"level", "level", false},
                                          std::tuple{"status", "status", false}, std::tuple{"levels", "L0–L4", false},
                                          std::tuple{"q", "q", true}, std::tuple{"reward", "reward", true},
                                          std::tuple{"speedup", "× eager", true}, std::tuple{"seconds", "seconds", true},
                                          std::tuple{"cause", "cause", false}})
    out += fmt::format("<th scope=col data-key={} aria-sort=none{}><button type=button>{}</button></th>", key, number ? " class=num" : "", name);
  out +=
      "</tr></thead><tbody id=body></tbody></table></div>\n"
      "<div class=pager><span class=muted id=count aria-live=polite></span><div><button id=prev type=button>Previous</button>"
      "<span class=muted id=page></span><button id=next type=button>Next</button></div></div>\n";
  if (impl_->sources_left_out)
    out += fmt::format("<p class=note>The sources of {} candidates are left out, so that the page stays usable.</p>\n", impl_->sources_left_out);
  out += "</section></main>\n";
  out += "<script type=application/json id=rows>" + escape_script_json(dump(impl_->rows)) + "</script>\n";
  for (std::size_t i = 0; i < impl_->details.size(); ++i) {
    out += fmt::format("<script type=application/json id=d{}>", i);
    out += impl_->details[i];
    out += "</script>\n";
  }
  out += fmt::format("<script>{}</script>\n</body></html>\n", kReportJs);
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  const std::string valid = base::printable(text);
  out.reserve(valid.size() + valid.size() / 8);
  for (char c : valid) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string escape_script_json(std::string_view json_text) {
  std::string out;
  out.reserve(json_text.size() + json_text.size() / 16);
  for (char c : json_text) {
    if (c == '<') out += "\\u003c";
    else if (c == '>') out += "\\u003e";
    else if (c == '&') out += "\\u0026";
    else out += c;
  }
  return out;
}

}  // namespace musacoder::cli
