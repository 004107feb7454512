#include "orchestrator/render/run/metrics_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

using MetricLabels = std::map<std::string, std::string>;
struct ParsedMetrics {
  std::vector<std::string> wrong;
  std::map<std::string, std::map<MetricLabels, double>> values;  // by metric, by labels
};

bool is_metric_name(const std::string& name, bool label) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c == ':' && !label);
  });
}

// NAME{LABEL="VALUE",...} NUMBER; nullopt: not that.
struct ParsedSample {
  std::string name;
  MetricLabels labels;
  double value = 0;
};
std::optional<ParsedSample> parse_sample(const std::string& line) {
  ParsedSample sample;
  std::size_t at = line.find_first_of("{ ");
  if (at == std::string::npos) return {};
  sample.name = line.substr(0, at);
  if (line[at] == '{') {
    for (++at; at < line.size() && line[at] != '}';) {
      const std::size_t equals = line.find("=\"", at);
      if (equals == std::string::npos) return {};
      const std::string label = line.substr(at, equals - at);
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') {
          if (++at >= line.size() || std::string("\\\"n").find(line[at]) == std::string::npos) return {};
          value += line[at] == 'n' ? '\n' : line[at];
        } else {
          value += line[at];
        }
      }
      if (at >= line.size() || !is_metric_name(label, true) || !sample.labels.emplace(label, value).second) return {};
      if (++at < line.size() && line[at] == ',') ++at;
    }
    if (++at >= line.size()) return {};
  }
  if (line[at] != ' ' || at + 1 >= line.size()) return {};
  std::size_t used = 0;
  sample.value = std::stod(line.substr(at + 1), &used);
  return used == line.size() - at - 1 ? std::optional(sample) : std::nullopt;
}

// What promtool's `check metrics` and node_exporter's parser ask of a text: every family described once, before its
// samples, which stand together; no series twice; counters end in _total, and only those.
ParsedMetrics parse_metrics(const std::string& text) {
  ParsedMetrics out;
  const auto wrong = [&](const std::string& what, const std::string& line) { out.wrong.push_back(what + ": " + line); };
  if (text.empty() || text.back() != '\n') wrong("no newline at the end", text);
  std::set<std::string> described;
  std::string family, help_of;
  for (const std::string& line : split(trim(text), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() > 3 && words[0] == "#" && words[1] == "HELP") {
      help_of = words[2];
      if (!described.insert(help_of).second) wrong("described twice", line);
    } else if (words.size() == 4 && words[0] == "#" && words[1] == "TYPE") {
      family = words[2];
      if (family != help_of || !is_metric_name(family, false)) wrong("no help before its type", line);
      if (words[3] != "gauge" && words[3] != "counter") wrong("no type that we use", line);
      if ((words[3] == "counter") != ends_with(family, "_total")) wrong("_total is for counters", line);
    } else if (const auto sample = parse_sample(line); !sample) {
      wrong("no sample", line);
    } else {
      if (sample->name != family) wrong("not among its family", line);
      if (!out.values[sample->name].emplace(sample->labels, sample->value).second) wrong("reported twice", line);
    }
  }
  return out;
}

GoodputFact fact_of(std::int64_t at_ms, GoodputFact::Kind kind, std::int64_t step = -1) {
  GoodputFact fact;
  fact.at_ms = at_ms, fact.kind = kind, fact.step = step;
  return fact;
}

// 10 s of queue, 5 s of start, three steps of 10 s, two faults of one kind and one of a nasty name.
StageGoodput training_with_faults(const std::string& stage) {
  using Kind = GoodputFact::Kind;
  GoodputLedger ledger(0);
  ledger.add(fact_of(0, Kind::submitted));
  ledger.add(fact_of(10'000, Kind::job_started));
  ledger.add(fact_of(15'000, Kind::ready, 0));
  ledger.add(fact_of(25'000, Kind::step, 1));
  ledger.add(fact_of(35'000, Kind::step, 2));
  std::int64_t now = 35'000;
  for (const char* name : {"killed", "killed", "odd\"\\\nname"}) {
    GoodputFact fault = fact_of(now + 1'000, Kind::fault, 2);
    fault.fault = name, fault.tier = "in_job", fault.part_ms = 500;
    ledger.add(fault);
    ledger.add(fact_of(now + 2'000, Kind::ranks_ended));
    ledger.add(fact_of(now + 2'000, Kind::launched));
    ledger.add(fact_of(now + 4'000, Kind::ready, 1));
    ledger.add(fact_of(now + 14'000, Kind::step, 2));
    now += 14'000;
  }
  ledger.add(fact_of(now + 10'000, Kind::step, 3));
  const HostWarning hot{"n1", "gpu_slowed", "GPU 3", "warning", "heat", 2, 0, 0};
  const HostWarning noisy{"n1", "nvlink_errors", "GPU 3", "warning", "checksums", 1, 0, 0};
  StageWarning hidden, over;
  hidden.warning.kind = over.warning.kind = "gpus_not_watched";
  hidden.warning.host = "n1,n2", over.warning.host = "n3", over.over = true;
  return {stage, ledger, {hidden, over}, {hot, noisy}};
}

RunStatus running_status() {
  RunStatus status;
  status.name = "my \"run\"";
  status.created_ms = 1;
  StageStatus train;
  train.id = "pretrain", train.kind = "pretrain", train.state = StageState::running;
  train.progress_done = 120, train.progress_total = 3000;
  train.newest_loss = 3.25, train.newest_heldout_loss = 3.5, train.tokens_per_s = 19'700, train.mfu = 0.4;
  StageStatus next;
  next.id = "sft", next.kind = "sft", next.state = StageState::submitted, next.submitted_ms = 59'500;
  StageStatus past;
  past.id = "warm", past.kind = "pretrain", past.state = StageState::succeeded;
  past.figures = Value::make_table();
  past.figures.set("loss", 4.0);
  status.stages = {train, next, past};
  return status;
}

}  // namespace

TEST_CASE("metrics: the text is what a collector takes, and says what the ledger says") {
  const std::vector<StageGoodput> stages = {training_with_faults("pretrain"), training_with_faults("sft/lr=1e-05")};
  const std::string text = metrics_text(running_status(), stages, 99'500);
  ParsedMetrics parsed = parse_metrics(text);
  for (const std::string& problem : parsed.wrong) FAIL_CHECK(problem);
  for (const MetricFamily& family : metric_families()) {
    CAPTURE(family.name);
    CHECK(parsed.values.contains(family.name));
    for (const auto& [labels, value] : parsed.values[family.name]) {
      CHECK(labels.size() == family.labels.size() + 1);
      CHECK(labels.at("run") == "my \"run\"");
      for (const std::string& label : family.labels) CHECK(labels.contains(label));
    }
  }
  CHECK(parsed.values["longhaul_metrics_written_timestamp_seconds"].begin()->second == doctest::Approx(99.5));

  const GoodputLedger& ledger = stages[0].ledger;
  const MetricLabels stage = {{"run", "my \"run\""}, {"stage", "pretrain"}};
  const auto of = [&](const std::string& metric, MetricLabels more) {
    more.insert(stage.begin(), stage.end());
    REQUIRE_MESSAGE(parsed.values[metric].contains(more), metric << " in " << text);
    return parsed.values[metric].at(more);
  };
  double sum = 0;
  for (int time = 0; time < time_classes; ++time)
    sum += of("longhaul_training_time_seconds", {{"class", to_string(static_cast<TimeClass>(time))}});
  CHECK(sum == doctest::Approx(static_cast<double>(ledger.total_ms()) * 1e-3));
  CHECK(of("longhaul_training_elapsed_seconds", {}) == doctest::Approx(sum));
  CHECK(of("longhaul_training_time_seconds", {{"class", "queue"}}) == doctest::Approx(10));
  CHECK(of("longhaul_training_effective_ratio", {}) == doctest::Approx(ledger.effective()));
  CHECK(of("longhaul_training_faults_total", {{"fault", "killed"}, {"tier", "in_job"}}) == 2);
  CHECK(of("longhaul_training_faults_total", {{"fault", "odd\"\\\nname"}, {"tier", "in_job"}}) == 1);
  CHECK(of("longhaul_training_lost_steps_total", {}) == static_cast<double>(ledger.lost_steps()));
  CHECK(of("longhaul_training_fault_time_seconds", {{"fault", "killed"}, {"class", "recompute"}}) ==
        doctest::Approx(20));
  CHECK(of("longhaul_host_findings_total",
           {{"host", "n1"}, {"class", "gpu_slowed"}, {"severity", "warning"}, {"device", "GPU 3"}}) == 2);
  CHECK(of("longhaul_host_findings_total",
           {{"host", "n1"}, {"class", "nvlink_errors"}, {"severity", "warning"}, {"device", "GPU 3"}}) == 1);
  CHECK(of("longhaul_training_last_fault_timestamp_seconds", {}) == doctest::Approx(63.5));
  CHECK(of("longhaul_hosts_gpus_not_watched", {}) == 2);
}

TEST_CASE("metrics: while a stage trains its step, loss and rate are there, and the states of all") {
  RunStatus status = running_status();
  const ParsedMetrics parsed = parse_metrics(metrics_text(status, {}, 99'500));
  CHECK(parsed.wrong.empty());
  const auto of = [&](const std::string& metric, MetricLabels labels) {
    labels["run"] = status.name;
    const auto family = parsed.values.find(metric);
    REQUIRE_MESSAGE(family != parsed.values.end(), metric);
    REQUIRE_MESSAGE(family->second.contains(labels), metric);
    return family->second.at(labels);
  };
  CHECK(of("longhaul_run_state", {{"state", "running"}}) == 1);
  CHECK(of("longhaul_stage_state", {{"stage", "sft"}, {"kind", "sft"}, {"state", "submitted"}}) == 1);
  CHECK(of("longhaul_stage_step", {{"stage", "pretrain"}}) == 120);
  CHECK(of("longhaul_stage_steps_planned", {{"stage", "pretrain"}}) == 3000);
  CHECK(of("longhaul_stage_loss", {{"stage", "pretrain"}}) == 3.25);
  CHECK(of("longhaul_stage_loss", {{"stage", "warm"}}) == 4);
  CHECK(of("longhaul_stage_heldout_loss", {{"stage", "pretrain"}}) == 3.5);
  CHECK(of("longhaul_stage_tokens_per_second", {{"stage", "pretrain"}}) == 19'700);
  CHECK(of("longhaul_stage_mfu_ratio", {{"stage", "pretrain"}}) == 0.4);
  CHECK(of("longhaul_stage_queued_seconds", {{"stage", "sft"}}) == doctest::Approx(40));
  status.stages[0].newest_loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(metrics_text(status, {}, 1).find("stage=\"pretrain\"} NaN\n") != std::string::npos);
}

TEST_CASE("metrics: the dashboard in docs asks for metrics that there are") {
  const auto text = read_file(join_path(LONGHAUL_SOURCE_DIR, "docs/grafana/longhaul.json"));
  REQUIRE(text.ok());
  const auto dashboard = parse_json(*text, "longhaul.json");
  REQUIRE(dashboard.ok());
  std::set<std::string> known;
  for (const MetricFamily& family : metric_families()) known.insert(family.name);
  int asked = 0;
  const std::vector<Value> panels = dashboard->find("panels")->as_array();
  for (const Value& panel : panels) {
    const Value* targets = panel.find("targets");
    if (!targets) continue;
    for (const Value& target : targets->as_array()) {
      const std::string expression = target.get_string("expr");
      for (std::size_t at = 0; (at = expression.find("longhaul_", at)) != std::string::npos; ++asked) {
        const std::size_t end = expression.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
        CHECK_MESSAGE(known.contains(expression.substr(at, end - at)), expression);
        at = end;
      }
    }
  }
  CHECK(asked >= 8);
}

TEST_CASE("metrics: before anything was trained only the time of writing is reported") {
  const ParsedMetrics parsed = parse_metrics(metrics_text(RunStatus(), {}, 1'000));
  CHECK(parsed.wrong.empty());
  CHECK(parsed.values.size() == 1);
}

TEST_CASE("metrics: the check of this test finds what is wrong") {
  CHECK(!parse_metrics("a 1").wrong.empty());                                           // nothing describes it
  CHECK(!parse_metrics("# HELP a b\n# TYPE a gauge\na 1\na 2\n").wrong.empty());        // twice
  CHECK(!parse_metrics("# HELP a b\n# TYPE a counter\na 1\n").wrong.empty());           // no _total
  CHECK(!parse_metrics("# HELP a b\n# TYPE a gauge\na{x=\"\\q\"} 1\n").wrong.empty());  // no such escape
  CHECK(parse_metrics("# HELP a b\n# TYPE a gauge\na{x=\"\\\"\"} 1e3\n").wrong.empty());
}

TEST_CASE("metrics: a run's name makes a file name that collectors read and that stays in its folder") {
  CHECK(metrics_file_name("run-2026_1.b") == "longhaul-run-2026_1.b.prom");
  CHECK(metrics_file_name("../a b/c") == "longhaul-.._a_b_c.prom");
}

}  // namespace longhaul
