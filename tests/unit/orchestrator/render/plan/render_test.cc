#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/draw/svg_canvas.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/report/svg.h"
#include "orchestrator/render/run/progress_view.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr std::int64_t created = 1'700'000'000'000;

StageStatus stage_in(const std::string& id, StageState state) {
  StageStatus stage;
  stage.id = id;
  stage.kind = "command";
  stage.state = state;
  stage.attempts = 1;
  stage.started_ms = created + 1000;
  if (is_final(state)) stage.ended_ms = created + 66'000;
  return stage;
}

StageStatus training(double done) {
  StageStatus stage = stage_in("pretrain", StageState::running);
  stage.progress_done = done;
  stage.progress_total = 400;
  stage.progress_unit = "steps";
  stage.progress_rate = 2.5;
  stage.eta_s = 130;
  return stage;
}

RunStatus status_of(std::vector<StageStatus> stages) {
  RunStatus status;
  status.name = "demo-1";
  status.workflow = "demo";
  status.created_ms = created;
  status.driven = true;
  status.stages = std::move(stages);
  return status;
}

}  // namespace

TEST_CASE("tables align by characters, not bytes") {
  CHECK(text_table({{"a", "b"}, {"é€", "c"}, {"xyz", ""}}) == "a    b\né€   c\nxyz\n");
  CHECK(clipped("héllo", 4) == "hél…");
  CHECK(clipped("short", 5) == "short");
}

TEST_CASE("trust: values of a run cannot forge lines of status, nor reach the terminal as orders") {
  StageStatus stage = stage_in("serve", StageState::failed);
  stage.kind = "deploy";
  stage.cause = "\x1b]52;c;AAAA\x07 gone\nrun demo-1: succeeded\u202e";
  RunStory story;
  story.status = status_of({stage});
  story.status.state = RunState::failed;
  StageStory of_stage;
  of_stage.id = "serve";
  of_stage.samples = {{"who?\nserver: http://forged",
                       "\xc2\x9b"
                       "2J me"}};
  of_stage.endpoint = {"http://127.0.0.1:1/\x1b[8m\nserver: other", "/tmp/\x07token"};
  story.stages = {of_stage};
  const std::string text = run_end_text(story, created + 70'000);
  CAPTURE(text);
  for (const char* raw :
       {"\x1b", "\x07", "\xc2\x9b", "\u202e", "\nrun demo-1: succ", "\nserver: http://forged", "\nserver: other"})
    CHECK(text.find(raw) == std::string::npos);
  CHECK(text.find("serve failed: \\u001b]52;c;AAAA\\u0007 gone\n    run demo-1: succeeded\\u202e\n") !=
        std::string::npos);
  CHECK(text.find("answered: \\u009b2J me\n") != std::string::npos);
  ProgressView view(true, 200);
  const std::string drawn = view.update(story.status, created + 70'000);
  CHECK(drawn.find("\\u001b]52") != std::string::npos);
  CHECK(drawn.find('\x1b') == std::string::npos);
  CHECK(text_table({{"a\nb", "c"}}) == "a\\u000ab  c\n");
}

TEST_CASE("a stage's line reports progress, rate and time left") {
  CHECK(progress_text(training(100)) == " 25 %  100/400 steps  2.5/s  eta " + human_duration(130));
  CHECK(progress_text(stage_in("x", StageState::running)).empty());
}

TEST_CASE("figures: the main ones first") {
  StageStatus stage = stage_in("x", StageState::succeeded);
  stage.figures = Value::make_table();
  stage.figures.set("files", 12);
  stage.figures.set("bits_per_byte", 2.3456789);
  stage.figures.set("name", "text is no figure");
  CHECK(figures_text(stage, 2) == "bits_per_byte 2.346, files 12");
  CHECK(figure_text(1e7) == human_count(1e7));
  CHECK(figure_text(0.00012345) == "0.0001234");
}

TEST_CASE("status says when nobody drives, and what failed") {
  RunStatus status = status_of({stage_in("a", StageState::failed)});
  status.stages[0].cause = "exit code 3";
  status.driven = false;
  CHECK(status_text(status, created + 70'000).find("nobody drives this run") != std::string::npos);
  CHECK(status_text(status, created + 70'000).find("a failed: exit code 3") != std::string::npos);
  status.driven = true;
  CHECK(status_text(status, created + 70'000).find("nobody") == std::string::npos);
}

TEST_CASE("status says what holds a stage up, since when, and what can be done") {
  RunStatus status;
  status.name = "run";
  status.created_ms = created;
  status.stages = {stage_in("sft", StageState::submitted)};
  StageStatus& stage = status.stages[0];
  CHECK(status_text(status, created + 700'000).find("refused") == std::string::npos);
  stage.held_up_by = "limit";
  stage.held_up = "QOSMaxSubmitJobPerUserLimit";
  stage.held_up_advice = "it is submitted again";
  stage.held_up_since_ms = created + 100'000;
  const std::string text = status_text(status, created + 700'000);
  CHECK(text.find("sft refused for now, 10m 00s: QOSMaxSubmitJobPerUserLimit; it is submitted again") !=
        std::string::npos);
  CHECK(run_status_to_value(status).find("stages")->as_array()[0].find("held_up")->get_string("by") == "limit");
  stage.held_up_by = "queue";
  CHECK(status_text(status, created + 700'000).find("sft does not start by itself, 10m 00s") != std::string::npos);
}

TEST_CASE("trust: an undriven run is said with who goes on with it and the command, and who asked what of it") {
  RunStatus status = status_of({stage_in("a", StageState::running)});
  status.driven = false;
  const auto says = [&](const std::string& part) {
    const std::string text = status_text(status, created + 70'000);
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  says("nobody drives this run: its jobs go on, and nothing new starts\n  longhaul resume demo-1\n");
  status.driver = "lead";
  says("its jobs drive this run on as they end");
  says("  longhaul tick demo-1 --until-quiet\n");
  status.stages[0].state = StageState::ready;
  says("nobody drives this run: none of its jobs is in the queue, and nothing new starts\n  longhaul resume demo-1\n");
  status.driver = "scrontab";
  says(
      "its line in scrontab drives this run on every few minutes; where it does not any more:\n  longhaul resume "
      "demo-1");
  status.driver = "job";
  says("its small job drives this run");
  status.own = false;
  status.owner_uid = 40001, status.driver_uid = 40002;
  says("longhaul resume demo-1  # as its owner, or as a colleague of its group");
  says("a run of uid 40001\n");
  says("last driven by uid 40002\n");
  for (int i = 0; i < 7; ++i) status.requests.push_back({"tell", format("answer {}", i), true, 40002, created});
  says("asked: tell, 2023-11-14T22:13:20.000Z, by uid 40002: answer 6\n");
  CHECK(status_text(status, created).find("answer 1") == std::string::npos);  // the newest five
  status.stages.push_back(stage_in("b", StageState::cached));
  status.stages[1].artifact = "/runs/r/stages/b/out", status.stages[1].artifact_uid = 40003;
  says("b is cached: /runs/r/stages/b/out, of uid 40003, verified\n");
  status.stages[1].artifact_uid = 40001;
  says("b is cached: /runs/r/stages/b/out, of the same owner\n");
}

TEST_CASE("plain progress: every change of state, and a stage at most once in ten seconds") {
  ProgressView view(false, 80);
  CHECK(view.update(status_of({training(10)}), created + 2000) == "22:13:22  pretrain  running\n");
  CHECK(view.update(status_of({training(20)}), created + 5000).empty());
  CHECK(view.update(status_of({training(30)}), created + 11'900).empty());
  CHECK(
      starts_with(view.update(status_of({training(40)}), created + 12'000), "22:13:32  pretrain   10 %  40/400 steps"));
  CHECK(view.update(status_of({training(40)}), created + 30'000).empty());  // nothing new to say
  CHECK(view.update(status_of({stage_in("pretrain", StageState::succeeded)}), created + 31'000) ==
        "22:13:51  pretrain  succeeded after " + human_duration(65) + "\n");
  CHECK(view.clear().empty());
}

TEST_CASE("on a terminal the block is redrawn in place and never wider than the terminal") {
  ProgressView view(true, 40);
  const std::string first = view.update(status_of({training(10), stage_in("b", StageState::waiting)}), created + 2000);
  CHECK(first.find("\x1b[2A") == std::string::npos);
  CHECK(
      view.update(status_of({training(11), stage_in("b", StageState::waiting)}), created + 2050).empty());  // too soon
  CHECK(starts_with(view.update(status_of({training(12), stage_in("b", StageState::waiting)}), created + 2500),
                    "\r\x1b[2A\x1b[J"));
  CHECK(view.clear() == "\r\x1b[2A\x1b[J");
  for (const std::string& line : progress_block(status_of({training(10)}), created, 40))
    CHECK(text_table({{line}}).size() <= 44);
  std::vector<StageStatus> many(50, training(1));
  CHECK(progress_block(status_of(many), created, 100).size() == 9);
}

TEST_CASE("what a person is to type next can be pasted, whatever the run's folder is called") {
  RunStatus status = status_of({stage_in("a", StageState::failed)});
  status.run = "/home/ana/my runs/it's-1";
  status.driven = false;
  CHECK(status_text(status, created).find("longhaul resume '/home/ana/my runs/it'\\''s-1'\n") != std::string::npos);
  status.state = RunState::failed;
  CHECK(status_text(status, created).find("go on from here:\n  longhaul resume '/home/ana/my runs/it'\\''s-1'\n") !=
        std::string::npos);
  CHECK(watch_text("/data/my runs/a") == "run:    /data/my runs/a\nwatch:  longhaul status '/data/my runs/a'\n");
  status.run = "/home/ana/runs/a-1";
  CHECK(status_text(status, created).find("longhaul resume /home/ana/runs/a-1\n") != std::string::npos);
}

TEST_CASE("the graph grows downwards: it fits on the page however long the chain and however wide a level is") {
  constexpr int page = 962;  // CSS pixels: of the style sheet's 1000, without its margins
  const auto width_of = [](const std::string& svg) {
    const std::size_t at = svg.find(" width=\"") + 8;
    return std::stoi(svg.substr(at));
  };
  std::vector<GraphNode> chain, fan = {{"first", "curate", "succeeded", {}}};
  for (int i = 0; i < 30; ++i)
    chain.push_back({format("s{}", i), "command", "waiting", i > 0 ? std::vector{i - 1} : std::vector<int>{}});
  for (int i = 0; i < 30; ++i) fan.push_back({format("s{}", i), "command", "waiting", {0}});
  CHECK(width_of(graph_svg(chain)) <= page);
  CHECK(width_of(graph_svg(fan)) <= page * 21 / 20);  // with arcs beside it, which are scaled down
  // Below all that it needs: a node of the third row of boxes is beside none of the first.
  const std::string svg = graph_svg({{"a", "x", "y", {}}, {"b", "x", "y", {0}}, {"c", "x", "y", {0, 1}}});
  std::vector<int> tops;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1))
    tops.push_back(std::stoi(svg.substr(svg.find(" y=\"", at) + 4)));
  REQUIRE(tops.size() == 3);
  CHECK(tops[0] < tops[1]);
  CHECK(tops[1] < tops[2]);
}

TEST_CASE("figures of the report stand one below the other, the main ones in the stage's row and all below it") {
  RunStory story;
  StageStatus stage = stage_in("pretrain", StageState::succeeded);
  stage.figures = Value::make_table();
  for (const char* name : {"files", "memory_held", "steps", "loss", "tokens", "heldout_loss"})
    stage.figures.set(name, 1.5);
  story.status = status_of({stage});
  const std::string html = report_html(story, created);
  const auto figure = [](const std::string& name) {
    return "<div class=\"figure\"><span>" + name + "</span><b>1.5</b></div>";
  };
  const std::size_t details = html.find("<details><summary>all figures");
  REQUIRE(details != std::string::npos);
  for (const char* name : {"heldout_loss", "loss", "tokens", "files"}) CHECK(html.find(figure(name)) < details);
  for (const char* name : {"memory_held", "steps"}) CHECK(html.find(figure(name)) > details);
  for (const char* name : {"memory_held", "steps", "loss"}) CHECK(html.rfind(figure(name)) > details);
  CHECK(html.rfind(figure("steps")) != std::string::npos);
}

TEST_CASE("axis ticks are round and inside") {
  CHECK(axis_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  for (double tick : axis_ticks(2.31, 9.97, 5)) CHECK((tick >= 2.31 && tick <= 9.97));
  CHECK(axis_ticks(1, 1, 5).empty());
}

TEST_CASE("charts leave out what is not finite, and thin long curves without losing extremes") {
  CHECK(chart_svg("x", {{"loss", {{1, NAN}, {2, INFINITY}}}}).empty());
  Curve curve{"loss", {}};
  for (int i = 0; i < 100'000; ++i) curve.points.push_back({double(i), i == 50'000 ? 1000.0 : 1.0});
  const std::string svg = chart_svg("x", {curve});
  CHECK(svg.size() < 40'000);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find(",38.9 ") != std::string::npos);  // the one peak, 5 % below the upper edge
}

TEST_CASE("a report escapes what strangers wrote and fetches nothing") {
  RunStory story;
  story.status = status_of({stage_in("deploy", StageState::succeeded)});
  story.status.name = "<script>alert(1)</script>";
  story.status.stages[0].cause = "a & b <b>";
  StageStory stage;
  stage.id = "deploy";
  stage.samples = {{"<img src=x>", "bad \xff byte </p><script>"}};
  stage.curves = {{"loss", {{1, 3}, {2, 2}}}};
  stage.warnings = {"warn: <i>"};
  story.stages = {stage};
  PlannedStage planned;
  planned.stage = "deploy";
  planned.kind = "command";
  planned.settings = Value::make_table();
  planned.settings.set("script", "</pre><script>");
  story.plan.stages = {planned};
  const std::string html = report_html(story, created);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("<img") == std::string::npos);
  CHECK(html.find("http") == std::string::npos);
  CHECK(html.find("src=x&gt;") != std::string::npos);
  CHECK(html.find("<polyline") != std::string::npos);
  CHECK(is_valid_utf8(html));
}

TEST_CASE("the report of a fork names the run and the step that it goes on from, and what was changed") {
  RunStory story;
  story.status = status_of({stage_in("pretrain", StageState::succeeded)});
  CHECK(report_html(story, created).find("a fork") == std::string::npos);
  story.fork = {"quickstart-1", "pretrain", 40, {"stage.pretrain.optimizer.lr=1e-3", "x=<script>"}};
  const std::string html = report_html(story, created);
  CHECK(html.find("a fork: pretrain goes on from step 40 of run quickstart-1, with stage.pretrain.optimizer.lr=1e-3") !=
        std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
}

TEST_CASE("a stage's story is folded over its attempts") {
  const std::string folder = "/tmp/longhaul-render-test-" + random_hex(6).value();
  const auto attempt = [&](int number, const std::string& lines) {
    const std::string path = join_path(folder, format("attempts/{}", number));
    make_directories(path).value();
    write_file_atomic(join_path(path, "events.jsonl"), lines).value();
  };
  const auto metric = [](int step, double loss) {
    Event event;
    event.kind = "metric";
    event.fields = Value::make_table();
    event.fields.set("step", step);
    event.fields.set("loss", loss);
    return event_line(event);
  };
  const auto sample = [](const std::string& text) {
    Event event;
    event.kind = "sample";
    event.fields = Value::make_table();
    event.fields.set("prompt", "q");
    event.fields.set("text", text);
    return event_line(event);
  };
  attempt(2, metric(2, 2.5) + metric(3, 2.0) + sample("new") + "{\"torn");
  attempt(1, metric(1, 4.0) + metric(2, 3.0) + sample("old"));
  attempt(10, metric(4, 1.0) + sample("newest"));
  const StageStory story = read_stage_story(folder, "");
  CHECK(attempt_numbers(folder) == std::vector<int>{1, 2, 10});
  REQUIRE(story.curves.size() == 1);
  REQUIRE(story.curves[0].points.size() == 4);
  CHECK(story.curves[0].points[1].value == 2.5);  // computed again after a restart
  REQUIRE(story.samples.size() == 1);
  CHECK(story.samples[0].text == "newest");
  CHECK(!story.waterfall.is_array());
  remove_tree(folder).value();
}

TEST_CASE("svg canvas: shapes in their order, whole pixels as they are and others to a tenth") {
  SvgCanvas svg, above;
  svg.line("grid", 1, 2.25, 3, 4.0);
  svg.rect("", 1, 2, 3.14159, 4);
  svg.rounded_rect(1, 2, 3, 4, 5);
  svg.circle("dot c1", 1, 2, 3);
  above.path("edge", "M1 2H3");
  svg.polyline("line", "1,2 3,4");
  svg.append(above);
  svg.open_group("node", "what");
  svg.text("", 1, 2, "name");
  svg.text_upwards("tick", 14, 2, "axis");
  svg.close_group();
  CHECK(svg.picture({.classes = "chart", .width = 64, .height = 48, .label = "a drawing"}) ==
        "<svg class=\"chart\" viewBox=\"0 0 64 48\" role=\"img\" aria-label=\"a drawing\">"
        "<line class=\"grid\" x1=\"1\" x2=\"3\" y1=\"2.2\" y2=\"4.0\"/>"
        "<rect x=\"1\" y=\"2\" width=\"3.1\" height=\"4\"/>"
        "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" rx=\"5\"/>"
        "<circle class=\"dot c1\" cx=\"1\" cy=\"2\" r=\"3\"/>"
        "<polyline class=\"line\" points=\"1,2 3,4\"/>"
        "<path class=\"edge\" d=\"M1 2H3\"/>"
        "<g class=\"node\"><title>what</title><text x=\"1\" y=\"2\">name</text>"
        "<text class=\"tick\" transform=\"translate(14 2) rotate(-90)\">axis</text></g></svg>");
}

TEST_CASE("svg canvas: a frame is as large as its classes say, as its width, or as its width and height") {
  const SvgCanvas svg;
  CHECK(
      svg.picture({.classes = "c", .width = 6, .height = 4, .label = "l", .size = SvgCanvas::Frame::Size::own_width}) ==
      "<svg class=\"c\" style=\"width:6px\" viewBox=\"0 0 6 4\" role=\"img\" aria-label=\"l\"></svg>");
  CHECK(svg.picture({.classes = "c", .width = 6, .height = 4, .label = "l", .size = SvgCanvas::Frame::Size::own}) ==
        "<svg class=\"c\" viewBox=\"0 0 6 4\" width=\"6\" height=\"4\" role=\"img\" aria-label=\"l\"></svg>");
}

TEST_CASE("svg canvas: no text of others becomes markup") {
  const std::string name = "</text><script>\"'&\xff";
  const std::string escaped = html_text(name);
  CHECK(escaped.find_first_of("<>\"'") == std::string::npos);
  SvgCanvas svg;
  svg.open_group(name, name);
  svg.text(name, 1, 2, name, name);
  svg.text_upwards(name, 1, 2, name);
  svg.rect(name, 1, 2, 3, 4, name);
  svg.circle(name, 1, 2, 3, name);
  svg.path(name, "M1 2", name);
  svg.close_group();
  const std::string drawn = svg.picture({.classes = "c", .width = 6, .height = 4, .label = name});
  CHECK(drawn.find("<script") == std::string::npos);
  std::size_t count = 0;
  for (std::size_t at = drawn.find(escaped); at != std::string::npos; at = drawn.find(escaped, at + 1)) ++count;
  CHECK(count == 14);
}

}  // namespace longhaul
