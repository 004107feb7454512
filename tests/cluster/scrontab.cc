// A scrontab for the test cluster: Debian's packages lack the program, though their slurmctld serves it.
//   scrontab FILE | -    replaces the user's table          scrontab -l    prints it          scrontab -r    removes it
// Understood: five fields of `*`, `*/N`, `A`, `A-B`, `A,B`, then a command; `#SCRON` lines with the options of apply().
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

// What slurm/slurm.h leaves out of libslurmfull: an entry of the table, as `job_desc_msg_t::crontab_entry` points to
// it.
extern "C" {
struct CronEntry {
  uint32_t flags;  // bit 1 + i: field i is `*`
  void* fields[5];
  char* cronspec;
  char* command;
  uint32_t line_start, line_end;
};
CronEntry* new_cron_entry();
void slurm_bit_set(void* bits, int64_t bit);
char* slurm_xstrdup(const char* text);
int slurm_time_str2mins(const char* text);
}

namespace {

struct Field {
  const char* name;
  int lowest, highest;
};
const Field kFields[5] = {
    {"minute", 0, 59}, {"hour", 0, 23}, {"day of month", 1, 31}, {"month", 1, 12}, {"weekday", 0, 6}};

[[noreturn]] void fail(const std::string& text) {
  std::cerr << "scrontab: " << text << "\n";
  std::exit(1);
}

void parse_field(CronEntry* entry, int index, const std::string& text) {
  const Field& field = kFields[index];
  if (text == "*") {
    entry->flags |= 1u << (1 + index);
    return;
  }
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int from = field.lowest, to = field.highest, step = 1, end = -1;
    const char* all = part.c_str();
    const int length = static_cast<int>(part.size());
    if (std::sscanf(all, "*/%d%n", &step, &end) == 1 && end == length) {
    } else if (end = -1; std::sscanf(all, "%d-%d%n", &from, &to, &end) == 2 && end == length) {
    } else if (end = -1; std::sscanf(all, "%d%n", &from, &end) == 1 && end == length) {
      to = from;
    } else {
      fail(std::string(field.name) + ": cannot read '" + part + "'");
    }
    if (step < 1 || from < field.lowest || to > field.highest || from > to) {
      fail(std::string(field.name) + ": '" + part + "' is out of range");
    }
    for (int i = from; i <= to; i += step) slurm_bit_set(entry->fields[index], i);
  }
}

/// One option of a #SCRON line.
void apply(job_desc_msg_t* job, const std::string& name, const std::string& value) {
  char* text = slurm_xstrdup(value.c_str());
  if (name == "-J" || name == "--job-name") {
    job->name = text;
  } else if (name == "-p" || name == "--partition") {
    job->partition = text;
  } else if (name == "-A" || name == "--account") {
    job->account = text;
  } else if (name == "-o" || name == "--output") {
    job->std_out = text;
  } else if (name == "-e" || name == "--error") {
    job->std_err = text;
  } else if (name == "-D" || name == "--chdir") {
    job->work_dir = text;
  } else if (name == "--comment") {
    job->comment = text;
  } else if (name == "-d" || name == "--dependency") {
    job->dependency = text;
  } else if (name == "--open-mode" && (value == "append" || value == "truncate")) {
    job->open_mode = value == "append" ? OPEN_MODE_APPEND : OPEN_MODE_TRUNCATE;
  } else if (name == "-t" || name == "--time") {
    const int minutes = slurm_time_str2mins(text);
    if (minutes < 1) fail("--time: cannot read '" + value + "'");
    job->time_limit = static_cast<uint32_t>(minutes);
  } else {
    fail("#SCRON " + name + ": not known to this scrontab");
  }
}

void parse_options(job_desc_msg_t* job, std::istringstream words) {
  for (std::string name, value; words >> name;) {
    const size_t equals = name.find('=');
    if (name.rfind("--", 0) == 0 && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (!(words >> value)) {
      fail("#SCRON " + name + ": which value?");
    }
    apply(job, name, value);
  }
}

job_desc_msg_t* new_job() {
  auto* job = static_cast<job_desc_msg_t*>(std::malloc(sizeof(job_desc_msg_t)));  // lives as long as the program
  slurm_init_job_desc_msg(job);
  job->bitflags |= CRON_JOB;
  job->user_id = getuid();
  job->group_id = getgid();
  job->min_nodes = 1;
  return job;
}

void complete(job_desc_msg_t* job, CronEntry* entry, const std::string& spec, const std::string& command) {
  entry->cronspec = slurm_xstrdup(spec.c_str());
  job->crontab_entry = entry;
  job->script = slurm_xstrdup(("#!/bin/sh\n" + command + "\n").c_str());
  if (!job->name) job->name = slurm_xstrdup(command.substr(0, command.find(' ')).c_str());
  if (!job->work_dir) job->work_dir = slurm_xstrdup(std::getenv("HOME") ? std::getenv("HOME") : "/");
  static char user_environment[] = "SLURM_GET_USER_ENV=1";  // the environment of a login, not of this shell
  static char* environment[] = {user_environment, nullptr};
  job->environment = environment;
  job->env_size = 1;
  job->argc = 1;
  job->argv = static_cast<char**>(std::calloc(2, sizeof(char*)));
  job->argv[0] = slurm_xstrdup(command.c_str());
}

void replace(std::istream& in) {
  const std::string table((std::istreambuf_iterator<char>(in)), {});
  List jobs = slurm_list_create(nullptr);
  std::istringstream lines(table);
  job_desc_msg_t* job = nullptr;
  uint32_t number = 0, first = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    const size_t start = line.find_first_not_of(" \t");
    const bool options = line.rfind("#SCRON", 0) == 0;
    if (start == std::string::npos || (line[start] == '#' && !options)) continue;
    if (!job) {
      job = new_job();
      first = number;
    }
    if (options) {
      parse_options(job, std::istringstream(line.substr(6)));
      continue;
    }
    CronEntry* entry = new_cron_entry();
    std::istringstream words(line);
    std::string spec, word, command;
    for (int i = 0; i < 5; ++i) {
      if (!(words >> word)) fail("line " + std::to_string(number + 1) + ": five fields and a command");
      parse_field(entry, i, word);
      spec += (i ? " " : "") + word;
    }
    std::getline(words >> std::ws, command);
    if (command.empty()) fail("line " + std::to_string(number + 1) + ": no command");
    entry->line_start = first;
    entry->line_end = number;
    complete(job, entry, spec, command);
    slurm_list_append(jobs, job);
    job = nullptr;
  }
  std::vector<char> text(table.begin(), table.end());
  text.push_back('\0');
  const crontab_update_response_msg_t* answer = slurm_update_crontab(getuid(), getgid(), text.data(), jobs);
  if (answer->return_code != SLURM_SUCCESS) {
    fail(std::string(slurm_strerror(static_cast<int>(answer->return_code))) + (answer->err_msg ? answer->err_msg : "") +
         (answer->failed_lines ? std::string(", lines ") + answer->failed_lines : ""));
  }
}

/// As the real one shows a table: "#DISABLED: " before the lines (counted from 0) that slurmctld runs no more.
std::string marked(const std::string& table, const std::string& disabled) {
  std::string shown;
  std::istringstream lines(table);
  uint32_t number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    std::istringstream ranges(disabled);
    for (std::string range; std::getline(ranges, range, ',');) {
      unsigned from = 0, to = 0;
      const int count = std::sscanf(range.c_str(), "%u-%u", &from, &to);
      if (count >= 1 && number >= from && number <= (count == 2 ? to : from)) shown += "#DISABLED: ";
    }
    shown += line + "\n";
  }
  return shown;
}

void list() {
  char *table = nullptr, *disabled = nullptr;
  const int error = slurm_request_crontab(getuid(), &table, &disabled);
  if (error != SLURM_SUCCESS || !table)
    fail(error && error != ESLURM_JOB_SCRIPT_MISSING ? slurm_strerror(error) : "no table");
  std::cout << marked(table, disabled ? disabled : "");
}

}  // namespace

int main(int count, char** words) {
  const std::string word = count == 2 ? words[1] : "";
  if (word.empty() || (word[0] == '-' && word != "-l" && word != "-r" && word != "-")) fail("one of: FILE, -, -l, -r");
  slurm_init(nullptr);
  if (word == "-l") {
    list();
  } else if (word == "-r") {
    if (const int error = slurm_remove_crontab(getuid(), getgid())) fail(slurm_strerror(error));
  } else if (word == "-") {
    replace(std::cin);
  } else {
    std::ifstream file(word);
    if (!file) fail("cannot read " + word);
    replace(file);
  }
}
