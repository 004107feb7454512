#include "orchestrator/index/runs_index.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "orchestrator/index/index_file.h"

namespace longhaul {
namespace {

constexpr std::size_t batch = 256;     // runs that are read before they are written
constexpr std::size_t few_looks = 64;  // threads are not worth it

constexpr const char* sql_tables =
    "CREATE TABLE about (runs_dir TEXT NOT NULL);"
    "CREATE TABLE run (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, workflow TEXT, state TEXT NOT NULL,"
    "  problem TEXT, owner_uid INTEGER, created_ms INTEGER, ended_ms INTEGER, epoch INTEGER, driver TEXT,"
    "  driver_host TEXT, driver_pid INTEGER, driver_start_ticks INTEGER, telling_stage INTEGER, stamp TEXT NOT NULL);"
    "CREATE TABLE stage (run INTEGER NOT NULL, ordinal INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT, state TEXT,"
    "  model TEXT, job TEXT, cause TEXT, artifact TEXT, attempts INTEGER, submitted_ms INTEGER, started_ms INTEGER,"
    "  ended_ms INTEGER, nodes INTEGER, node_ms REAL, step INTEGER, steps INTEGER, loss REAL, events TEXT,"
    "  events_stamp TEXT, PRIMARY KEY (run, ordinal)) WITHOUT ROWID;"
    "CREATE TABLE figure (run INTEGER NOT NULL, ordinal INTEGER NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,"
    "  PRIMARY KEY (run, ordinal, name)) WITHOUT ROWID;";

std::string text_of(const FileStamp& stamp) {
  return format("{}.{}.{}.{}", stamp.inode, stamp.bytes, stamp.changed_ns, stamp.status_ns);
}
// "": to be read again.
std::string text_of(const RunStamp& stamp) {
  return stamp.log.there() ? text_of(stamp.log) + " " + text_of(stamp.newest) : std::string();
}

// A stage that runs, as far as its events were read.
struct KnownEvents {
  std::int64_t run = 0, ordinal = 0;
  std::string run_name, stamp;
  StageSummary stage;  // its events, step, steps and loss
};
struct KnownRun {
  std::int64_t id = 0, epoch = 0;
  bool ended = false;
  std::string stamp;
  std::vector<KnownEvents> events;
};
using KnownRuns = std::unordered_map<std::string, KnownRun>;

Result<KnownRuns> known_runs(SqlDatabase& database) {
  KnownRuns known;
  std::unordered_map<std::int64_t, std::string> names;
  LH_TRY(SqlStatement runs, database.prepare("SELECT id, name, epoch, state, stamp FROM run"));
  for (;;) {
    LH_TRY(const bool row, runs.step());
    if (!row) break;
    const std::string state = runs.text(3);
    KnownRun run{runs.integer(0), runs.integer(2), state != "running", runs.text(4), {}};
    if (!run.ended) names.emplace(run.id, runs.text(1));
    known.emplace(runs.text(1), std::move(run));
  }
  LH_TRY(SqlStatement stages,
         database.prepare("SELECT run, ordinal, events, events_stamp, step, steps, loss FROM stage "
                          "WHERE state = 'running' AND events <> ''"));
  for (;;) {
    LH_TRY(const bool row, stages.step());
    if (!row) break;
    const auto name = names.find(stages.integer(0));
    if (name == names.end()) continue;
    KnownEvents events{stages.integer(0), stages.integer(1), name->second, stages.text(3), {}};
    events.stage.events = stages.text(2);
    events.stage.step = stages.integer(4);
    events.stage.steps = stages.integer(5);
    if (!stages.is_null(6)) events.stage.loss = stages.number(6);
    known.at(name->second).events.push_back(std::move(events));
  }
  return known;
}

// What became of a run since it was last read.
struct Look {
  bool same = false;
  std::size_t looks = 0;
  std::vector<const KnownEvents*> grown;  // of unchanged runs: stages whose events have grown
};

Look look_at_known(const std::string& run_dir, const KnownRun& known) {
  Look look;
  if (known.stamp.empty()) return look;
  RunStamp now;
  now.log = stamp_of(join_path(run_dir, "log"));
  ++look.looks;
  if (!known.ended) {
    now.newest = stamp_of(join_path(run_dir, epoch_file(known.epoch)));
    ++look.looks;
  }
  look.same = text_of(now) == known.stamp;
  if (!look.same) return look;
  for (const KnownEvents& events : known.events) {
    ++look.looks;
    if (text_of(stamp_of(join_path(run_dir, events.stage.events))) != events.stamp) look.grown.push_back(&events);
  }
  return look;
}

// The statements that change an index, made once.
class Writer {
 public:
  static Result<Writer> make(SqlDatabase& database) {
    Writer writer;
    LH_TRY(writer.put_run_, database.prepare("INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    LH_TRY(writer.put_stage_, database.prepare("INSERT INTO stage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    LH_TRY(writer.put_figure_, database.prepare("INSERT OR REPLACE INTO figure VALUES (?,?,?,?)"));
    LH_TRY(writer.progress_, database.prepare("UPDATE stage SET step = ?, steps = ?, loss = ?, events_stamp = ? "
                                              "WHERE run = ? AND ordinal = ?"));
    for (const char* sql :
         {"DELETE FROM run WHERE id = ?", "DELETE FROM stage WHERE run = ?", "DELETE FROM figure WHERE run = ?"}) {
      LH_TRY(SqlStatement remove, database.prepare(sql));
      writer.remove_.push_back(std::move(remove));
    }
    return writer;
  }

  Status remove(std::int64_t run) {
    for (SqlStatement& statement : remove_) LH_CHECK(statement.bind(1, run).finish());
    return {};
  }

  Status put(const RunSummary& run, std::int64_t id) {
    const StageSummary* const telling = run.telling_stage();
    SqlStatement& put = *put_run_;
    put.bind(1, id).bind(2, run.name).bind(3, run.workflow).bind(4, run.state).bind(5, run.problem);
    put.bind(6, run.owner_uid).bind(7, run.created_ms).bind(8, run.ended_ms).bind(9, run.epoch).bind(10, run.driver);
    put.bind(11, run.driver_host).bind(12, run.driver_pid);
    put.bind(13, static_cast<std::int64_t>(run.driver_start_ticks));
    put.bind(14, static_cast<std::int64_t>(telling ? telling - run.stages.data() : -1)).bind(15, text_of(run.stamp));
    LH_CHECK(put.finish());
    for (std::size_t i = 0; i < run.stages.size(); ++i)
      LH_CHECK(put_stage(run.stages[i], id, static_cast<std::int64_t>(i)));
    return {};
  }

  Status put_progress(const StageSummary& stage, std::int64_t run, std::int64_t ordinal) {
    SqlStatement& put = *progress_;
    put.bind(1, stage.step).bind(2, stage.steps);
    bind_loss(put, 3, stage);
    LH_CHECK(put.bind(4, text_of(stage.events_stamp)).bind(5, run).bind(6, ordinal).finish());
    return put_figures(stage, run, ordinal);
  }

 private:
  Writer() = default;

  static void bind_loss(SqlStatement& put, int at, const StageSummary& stage) {
    if (stage.loss)
      put.bind(at, *stage.loss);
    else
      put.bind_null(at);
  }

  Status put_stage(const StageSummary& stage, std::int64_t run, std::int64_t ordinal) {
    SqlStatement& put = *put_stage_;
    put.bind(1, run).bind(2, ordinal).bind(3, stage.id).bind(4, stage.kind).bind(5, stage.state).bind(6, stage.model);
    put.bind(7, stage.job).bind(8, stage.cause).bind(9, stage.artifact);
    put.bind(10, static_cast<std::int64_t>(stage.attempts)).bind(11, stage.submitted_ms).bind(12, stage.started_ms);
    put.bind(13, stage.ended_ms).bind(14, static_cast<std::int64_t>(stage.nodes)).bind(15, stage.node_ms);
    put.bind(16, stage.step).bind(17, stage.steps);
    bind_loss(put, 18, stage);
    LH_CHECK(put.bind(19, stage.events).bind(20, text_of(stage.events_stamp)).finish());
    return put_figures(stage, run, ordinal);
  }

  Status put_figures(const StageSummary& stage, std::int64_t run, std::int64_t ordinal) {
    for (const auto& [name, value] : stage.figures)
      LH_CHECK(put_figure_->bind(1, run).bind(2, ordinal).bind(3, name).bind(4, value).finish());
    return {};
  }

  std::optional<SqlStatement> put_run_, put_stage_, put_figure_, progress_;
  std::vector<SqlStatement> remove_;
};

Result<SqlDatabase> new_index(const std::string& runs_dir) {
  LH_TRY(SqlDatabase database, SqlDatabase::in_memory());
  LH_CHECK(database.run(sql_tables));
  LH_TRY(SqlStatement about, database.prepare("INSERT INTO about VALUES (?)"));
  LH_CHECK(about.bind(1, runs_dir).finish());
  return database;
}

}  // namespace

std::string runs_index_path(const std::string& folder, const std::string& runs_dir) {
  return join_path(folder, "runs-" + hex64(xxh3_64(absolute_path(runs_dir))) + ".db");
}

Result<RunsIndex> RunsIndex::open(const std::string& runs_dir_given, const RunsIndexOptions& options,
                                  std::int64_t now_ms) {
  const std::string runs_dir = absolute_path(runs_dir_given);
  const std::string path = options.folder.empty() ? std::string() : runs_index_path(options.folder, runs_dir);
  Result<SqlDatabase> kept = make_error(ErrorCode::not_found, "none is kept");
  if (!path.empty() && !options.rebuild) kept = load_index_file(path, runs_dir);
  const bool was_there = kept.ok() || kept.error().code != ErrorCode::not_found;
  RunsIndexWork work;
  if (!kept.ok() && was_there) work.remarks.push_back(kept.error().message() + "; it is made again from the runs");
  if (!kept.ok()) kept = new_index(runs_dir);
  if (!kept.ok()) return kept.error();
  RunsIndex index(runs_dir, std::move(kept).value());
  index.work_ = std::move(work);
  LH_TRY(const bool changed, index.bring_up_to_date(options, now_ms));
  if (changed && !path.empty())
    if (const Status saved = save_index_file(path, index.database_); !saved.ok())
      index.work_.remarks.push_back("the index of these runs is not kept: " + saved.error().message());
  return index;
}

Result<bool> RunsIndex::bring_up_to_date(const RunsIndexOptions& options, std::int64_t now_ms) {
  auto listed = list_directory(runs_dir_);
  if (!listed.ok() && listed.error().code != ErrorCode::not_found) return listed.error();
  std::vector<std::string> names = listed.ok() ? std::move(listed).value() : std::vector<std::string>();
  std::erase_if(names, [](const std::string& name) { return starts_with(name, "."); });
  LH_TRY(KnownRuns known, known_runs(database_));
  const auto threads_for = [&](std::size_t count) { return count < few_looks ? 1 : std::max(1, options.threads); };

  std::vector<Look> looks(names.size());
  parallel_for(names.size(), threads_for(names.size()), [&](std::size_t i) {
    const auto found = known.find(names[i]);
    if (found != known.end()) looks[i] = look_at_known(join_path(runs_dir_, names[i]), found->second);
  });
  std::vector<std::size_t> to_read;
  std::vector<KnownEvents> grown;
  for (std::size_t i = 0; i < names.size(); ++i) {
    work_.looks += looks[i].looks;
    if (!looks[i].same) to_read.push_back(i);
    for (const KnownEvents* events : looks[i].grown) grown.push_back(*events);
  }

  LH_TRY(Writer writer, Writer::make(database_));
  LH_CHECK(database_.run("BEGIN"));
  std::size_t runs = names.size() - to_read.size();
  std::int64_t next_id = 1;
  for (const auto& [name, run] : known) next_id = std::max(next_id, run.id + 1);
  bool changed = false;
  for (std::size_t from = 0; from < to_read.size(); from += batch) {
    const std::size_t count = std::min(batch, to_read.size() - from);
    std::vector<std::optional<RunSummary>> read(count);
    parallel_for(count, std::min<int>(options.threads, static_cast<int>(count)), [&](std::size_t i) {
      read[i] = read_run_summary(join_path(runs_dir_, names[to_read[from + i]]), now_ms);
    });
    for (std::size_t i = 0; i < count; ++i) {
      const auto old = known.find(names[to_read[from + i]]);
      if (old != known.end()) LH_CHECK(writer.remove(old->second.id));
      changed = changed || old != known.end() || read[i];
      if (!read[i]) continue;
      LH_CHECK(writer.put(*read[i], old != known.end() ? old->second.id : next_id++));
      ++runs, ++work_.read;
    }
    if (options.progress) options.progress(from + count, to_read.size());
  }
  parallel_for(grown.size(), std::min<int>(options.threads, static_cast<int>(grown.size())),
               [&](std::size_t i) { read_stage_progress(join_path(runs_dir_, grown[i].run_name), grown[i].stage); });
  for (const KnownEvents& events : grown) LH_CHECK(writer.put_progress(events.stage, events.run, events.ordinal));
  for (const std::string& name : names) known.erase(name);
  for (const auto& [name, run] : known) LH_CHECK(writer.remove(run.id));
  LH_CHECK(database_.run("COMMIT"));
  work_.runs = runs;
  return changed || !grown.empty() || !known.empty();
}

namespace {

// A question in SQL with its parameters; ?1 is the present time.
class Sql {
 public:
  explicit Sql(std::int64_t now_ms) : values_{now_ms} {}
  std::string value(std::variant<std::int64_t, double, std::string> one) {
    values_.push_back(std::move(one));
    return format("?{}", values_.size());
  }
  // An empty list lets everything through.
  template <class List, class Condition>
  void any_of(const List& list, const Condition& condition) {
    std::vector<std::string> parts;
    for (const auto& one : list) parts.push_back(condition(one));
    if (!parts.empty()) conditions_.push_back("(" + join(parts, " OR ") + ")");
  }
  void require(const std::string& condition) { conditions_.push_back(condition); }
  std::string where() const { return conditions_.empty() ? "" : " WHERE " + join(conditions_, " AND "); }
  void bind_to(SqlStatement& statement) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
      std::visit([&](const auto& value) { statement.bind(static_cast<int>(i) + 1, value); }, values_[i]);
  }

 private:
  std::vector<std::variant<std::int64_t, double, std::string>> values_;
  std::vector<std::string> conditions_;
};

bool has_wildcard(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}
std::string begins_with(const std::string& text) {
  return has_wildcard(text) ? text : text + "*";
}

bool is_run_state(const std::string& state) {
  return state == "running" || state == "succeeded" || state == "failed" || state == "cancelled" ||
         state == "unreadable";
}

// Of one stage, in node milliseconds, with what runs now.
constexpr const char* node_ms_now =
    "{0}.node_ms + CASE WHEN {0}.state = 'running' AND {0}.started_ms > 0 "
    "THEN {0}.nodes * MAX(0, ?1 - {0}.started_ms) ELSE 0 END";

void add_conditions(const RunsQuery& query, Sql& sql) {
  sql.any_of(query.states, [&](const std::string& state) {
    return format("{}.state = {}", !query.stages && is_run_state(state) ? "r" : "s", sql.value(state));
  });
  sql.any_of(query.names, [&](const std::string& name) {
    const std::string pattern = sql.value(begins_with(name));
    return format("r.name GLOB {0} OR r.workflow GLOB {0}", pattern);
  });
  sql.any_of(query.owners, [&](std::int64_t uid) { return "r.owner_uid = " + sql.value(uid); });
  const std::string of_run = query.stages ? "" : "EXISTS (SELECT 1 FROM stage x WHERE x.run = r.id AND ";
  const std::string end = query.stages ? "" : ")", stage = query.stages ? "s" : "x";
  sql.any_of(query.of_stage, [&](const std::string& name) {
    const std::string given = sql.value(name), below = sql.value(has_wildcard(name) ? name : name + "/*");
    return of_run + format("({0}.id GLOB {1} OR {0}.id GLOB {2} OR {0}.kind GLOB {1})", stage, given, below) + end;
  });
  sql.any_of(query.models, [&](const std::string& model) {
    return of_run + format("lower({}.model) GLOB lower({})", stage, sql.value(begins_with(model))) + end;
  });
  if (query.since_ms) {
    const std::string since = sql.value(*query.since_ms);
    sql.require(query.stages ? format("(s.ended_ms >= {} OR (s.ended_ms = 0 AND r.ended_ms = 0))", since)
                             : format("(r.ended_ms = 0 OR r.ended_ms >= {})", since));
  }
  if (query.until_ms)
    sql.require((query.stages ? "s.started_ms > 0 AND s.started_ms <= " : "r.created_ms <= ") +
                sql.value(*query.until_ms));
}

std::string question_in_sql(const RunsQuery& query, Sql& sql) {
  std::string figures;
  for (const FigureBound& bound : query.figures)
    figures += format(
        ", (SELECT f.value FROM figure f WHERE f.run = r.id{} AND f.name = {} AND f.value {} {} "
        "ORDER BY f.ordinal DESC LIMIT 1)",
        query.stages ? " AND f.ordinal = s.ordinal" : "", sql.value(bound.name), bound.relation,
        sql.value(bound.value));
  add_conditions(query, sql);
  const std::string node_ms = query.stages ? fmt::format(fmt::runtime(node_ms_now), "s")
                                           : "(SELECT SUM(" + fmt::format(fmt::runtime(node_ms_now), "n") +
                                                 ") FROM stage n WHERE n.run = r.id)";
  return "SELECT r.name, r.workflow, r.state, r.problem, r.owner_uid, r.created_ms, r.ended_ms, r.driver, "
         "r.driver_host, r.driver_pid, r.driver_start_ticks, s.id, s.kind, s.state, s.model, s.job, s.cause, "
         "s.attempts, s.submitted_ms, s.started_ms, s.ended_ms, s.step, s.steps, s.loss, " +
         node_ms + figures + " FROM run r " +
         (query.stages ? "JOIN stage s ON s.run = r.id"
                       : "LEFT JOIN stage s ON s.run = r.id AND s.ordinal = r.telling_stage") +
         sql.where() + " ORDER BY r.created_ms, r.name" + (query.stages ? ", s.ordinal" : "");
}

RunsRow row_of(const SqlStatement& answer) {
  RunsRow row;
  row.name = answer.text(0), row.workflow = answer.text(1), row.state = answer.text(2), row.problem = answer.text(3);
  row.owner_uid = answer.integer(4), row.created_ms = answer.integer(5), row.ended_ms = answer.integer(6);
  row.driver = answer.text(7), row.driver_host = answer.text(8), row.driver_pid = answer.integer(9);
  row.driver_start_ticks = static_cast<std::uint64_t>(answer.integer(10));
  row.stage = answer.text(11), row.kind = answer.text(12), row.stage_state = answer.text(13);
  row.model = answer.text(14), row.job = answer.text(15), row.cause = answer.text(16);
  row.attempts = static_cast<int>(answer.integer(17));
  row.submitted_ms = answer.integer(18), row.started_ms = answer.integer(19), row.finished_ms = answer.integer(20);
  row.step = answer.is_null(21) ? -1 : answer.integer(21), row.steps = answer.integer(22);
  if (!answer.is_null(23)) row.loss = answer.number(23);
  row.node_hours = answer.number(24) / 3.6e6;
  return row;
}

}  // namespace

Result<std::vector<RunsRow>> RunsIndex::ask(const RunsQuery& query, std::int64_t now_ms) {
  constexpr int first_figure = 25;
  Sql sql(now_ms);
  const std::string text = question_in_sql(query, sql);
  LH_TRY(SqlStatement answer, database_.prepare(text));
  sql.bind_to(answer);
  std::vector<RunsRow> rows;
  for (;;) {
    LH_TRY(const bool more, answer.step());
    if (!more) return rows;
    RunsRow row = row_of(answer);
    row.runs_dir = runs_dir_;
    for (std::size_t i = 0; i < query.figures.size(); ++i) {
      const int column = first_figure + static_cast<int>(i);
      if (!answer.is_null(column)) row.figures.push_back(answer.number(column));
    }
    if (row.figures.size() == query.figures.size()) rows.push_back(std::move(row));
  }
}

}  // namespace longhaul
