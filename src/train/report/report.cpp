#include "train/report/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "train/report/report_assets.h"
#include "train/run/run_folder.h"

namespace fs = std::filesystem;

namespace musacoder::train {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPoints = 2000;  // of a curve; longer ones are thinned evenly
constexpr std::size_t kMostAnswers = 40;   // the newest, of all runs together
constexpr std::size_t kMostText = 20000;   // characters of one text

struct Series {
  std::vector<std::int64_t> step;
  std::vector<double> time;
  std::vector<json> value;  // null: not finite
};

json series_json(const Series& s) {
  json step = json::array(), time = json::array(), value = json::array();
  const std::size_t stride = (s.step.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < s.step.size(); ++i) {
    if (i % stride != 0 && i + 1 != s.step.size()) continue;  // the last one always
    step.push_back(s.step[i]);
    time.push_back(s.time[i]);
    value.push_back(s.value[i]);
  }
  return {{"step", step}, {"time", time}, {"value", value}};
}

// Complete lines; what a run is writing right now is left.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
    out.push_back(text.substr(from, end - from));
  return out;
}

std::string cut(std::string text) {
  if (text.size() > kMostText) {
    text.resize(kMostText);
    text += "\n…";
  }
  return text;
}

json answers_of(const std::string& folder, std::size_t most) {
  json out = json::array();
  const auto text = base::read_file(folder + "/answers.jsonl", 4ull << 30);
  if (!text) return out;
  std::vector<std::string> lines = lines_of(*text);
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  std::reverse(lines.begin(), lines.end());
  for (const std::string& line : lines) {
    json one = json::parse(line, nullptr, false);
    if (!one.is_object() || !one.contains("turns") || !one["turns"].is_array()) continue;
    for (json& turn : one["turns"])
      for (const char* key : {"text", "feedback"})
        if (turn.contains(key) && turn[key].is_string()) turn[key] = cut(turn[key].get<std::string>());
    out.push_back(std::move(one));
  }
  return out;
}

json config_of(const std::string& folder) {
  const auto newest = RunFolder(folder).newest();
  if (!newest || newest->empty()) return json::object();
  const auto state = RunFolder::read(*newest);
  if (!state || !state->contains("config")) return json::object();
  return json::parse((*state)["config"].dump());
}

Result<json> run_json(const std::string& folder, const std::string& name, std::size_t answers) {
  const std::string path = folder + "/metrics.jsonl";
  auto text = base::read_file(path, 4ull << 30);
  if (!text)
    return fail(text.error().code, "{}: not the folder of a training run: {}", folder, text.error().message);
  std::map<std::string, Series> series;
  std::vector<std::string> order;
  double began = 0;
  std::int64_t steps = 0;
  std::size_t number = 0;
  for (const std::string& line : lines_of(*text)) {
    ++number;
    const auto row = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer() ||
        !row.contains("time") || !row["time"].is_number())
      return fail(Code::kInvalidArgument, "{}:{}: not a line of metrics", path, number);
    const double time = row["time"].get<double>();
    if (began == 0) began = time;
    steps = std::max(steps, row["step"].get<std::int64_t>());
    for (const auto& [key, value] : row.items()) {
      if (key == "step" || key == "time" || !(value.is_number() || value.is_null())) continue;
      const auto [at, fresh] = series.try_emplace(key);
      if (fresh) order.push_back(key);
      at->second.step.push_back(row["step"].get<std::int64_t>());
      at->second.time.push_back(time);
      at->second.value.push_back(value.is_null() ? json() : json(value.get<double>()));
    }
  }
  nlohmann::json all = json::object();
  for (const std::string& key : order) all[key] = series_json(series[key]);
  return json{{"name", name},
              {"began", began},
              {"steps", steps},
              {"series", all},
              {"config", config_of(folder)},
              {"answers", answers_of(folder, answers)}};
}

// Short names that tell the runs apart.
std::vector<std::string> names_of(const std::vector<std::string>& runs) {
  std::vector<std::string> out;
  for (const std::string& run : runs) {
    const fs::path path = fs::absolute(run).lexically_normal();
    out.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    if (std::count(out.begin(), out.end(), out[i]) > 1) return runs;
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// JSON inside <script>: nothing in it may end the element.
std::string for_script(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else if (c == '>')
      out += "\\u003e";
    else if (c == '&')
      out += "\\u0026";
    else
      out += c;
  }
  return out;
}

}  // namespace

Result<std::string> report_page(const RunReportOptions& options) {
  const std::vector<std::string> names = names_of(options.runs);
  json runs = json::array();
  for (std::size_t i = 0; i < options.runs.size(); ++i) {
    MC_ASSIGN_OR_RETURN(json one, run_json(options.runs[i], names[i],
                                           std::max<std::size_t>(4, kMostAnswers / options.runs.size())));
    runs.push_back(std::move(one));
  }
  const std::string title = options.title.empty() ? fmt::format("{}", fmt::join(names, ", ")) : options.title;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style></"
      "head>\n<body><main><h1>{0}</h1>\n"
      "<p class=\"sub\">Training run{2}, as of the last line of metrics.jsonl. Arrow keys move along a "
      "curve.</p>\n"
      "<ul class=\"legend\" id=\"legend\" aria-label=\"runs\"></ul>\n"
      "<div class=\"scroll\" id=\"last\"></div>\n"
      "<div class=\"controls\"><label>Smoothing <input type=\"range\" id=\"smooth\" min=\"0\" max=\"99\" "
      "value=\"0\"></label>"
      "<label>Along <select id=\"axis\"><option value=\"step\">steps</option><option "
      "value=\"time\">hours</option></select></label>"
      "<label><input type=\"checkbox\" id=\"log\"> logarithmic</label>"
      "<label>Only <input type=\"search\" id=\"filter\" placeholder=\"part of a name\"></label></div>\n"
      "<div id=\"charts\"></div>\n<section id=\"answers\"><h2>Answers, newest first</h2></section>\n"
      "<section id=\"config\"><h2>Configuration</h2></section></main>\n"
      "<script type=\"application/json\" id=\"data\">{3}</script>\n<script>{4}</script></body></html>\n",
      escaped(title), kRunReportCss, options.runs.size() == 1 ? "" : "s", for_script({{"runs", runs}}),
      kRunReportJs);
}

Status run_report(const RunReportOptions& options) {
  MC_ASSIGN_OR_RETURN(const std::string page, report_page(options));
  MC_RETURN_IF_ERROR(base::write_file_atomic(options.out, page));
  fmt::print("{}\n", options.out);
  return ok();
}

}  // namespace musacoder::train
