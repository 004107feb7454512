#include "orchestrator/cli/docs/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/schema/key_synonyms.h"
#include "orchestrator/cli/options/command_specs.h"

namespace longhaul {
namespace {

struct Entry {
  std::string page, section, name, text;
  std::vector<std::string> also;  // other names of the same: of an exit code its name
};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// "| a | b \| c |": its cells as plain text.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && row[i + 1] == '|') {
      cell += row[++i];
    } else if (row[i] == '|') {
      cells.emplace_back(trim(cell));
      cell.clear();
    } else {
      cell += row[i];
    }
  }
  return cells;
}

std::string without_quotes(const std::string& cell) {
  return cell.size() > 1 && cell.front() == '`' && cell.back() == '`' ? cell.substr(1, cell.size() - 2) : cell;
}

// Reads the pages from their beginning to their end; each line belongs to the last heading.
class PageReader {
 public:
  std::vector<Entry> read(const std::vector<ReferencePage>& pages) {
    for (const ReferencePage& page : pages) {
      page_ = page.name;
      section_.clear(), columns_.clear();
      paragraph_ = std::string::npos;
      for (const std::string& line : split(page.text, '\n')) take(line);
    }
    return std::move(entries_);
  }

 private:
  void take(const std::string& line) {
    if (starts_with(line, "#")) {
      columns_.clear();
      section_ = starts_with(line, "## ") || starts_with(line, "### ") ? line.substr(line.find(' ') + 1) : "";
      paragraph_ = section_.empty() ? std::string::npos : entries_.size();
      if (!section_.empty()) entries_.push_back({page_, "", section_, "", {}});
    } else if (starts_with(line, "|---")) {
      // the line between a table's head and its rows
    } else if (starts_with(line, "|")) {
      take_row(cells_of(line));
    } else {
      columns_.clear();
      if (paragraph_ != std::string::npos && !trim(line).empty() && !starts_with(line, "<!--"))
        entries_[paragraph_].text += plain_text(line) + "\n";
    }
  }

  void take_row(const std::vector<std::string>& cells) {
    if (columns_.empty()) {
      columns_ = cells;
      return;
    }
    Entry entry{page_, section_, without_quotes(cells[0]), "", {}};
    for (std::size_t i = 1; i < cells.size() && i < columns_.size(); ++i) {
      if (cells[i].empty()) continue;
      if (columns_[i] == "name") entry.also.push_back(cells[i]);
      entry.text += (columns_[i].empty() ? "" : columns_[i] + ": ") + plain_text(cells[i]) + "\n";
    }
    entries_.push_back(std::move(entry));
  }

  std::vector<Entry> entries_;
  std::string page_, section_;
  std::vector<std::string> columns_;
  std::size_t paragraph_ = std::string::npos;  // the entry of the section that is read
};

bool is_called(const Entry& entry, const std::string& name) {
  return lower(entry.name) == name ||
         std::any_of(entry.also.begin(), entry.also.end(), [&](const std::string& one) { return lower(one) == name; });
}

bool is_of_settings(const Entry& entry) {
  return entry.page == "stage-kinds.md" || entry.page == "workflow.md" || entry.page == "site.md";
}

// The first way of reading the name that finds something is taken, so that `steps` does not bring all that ends so.
std::vector<const Entry*> entries_called(const std::vector<Entry>& entries, std::string asked) {
  if (starts_with(asked, "stage.")) asked = asked.substr(6);
  std::vector<const Entry*> found;
  const auto take = [&](const auto& wanted) {
    if (!found.empty()) return;
    for (const Entry& entry : entries)
      if (!entry.text.empty() && wanted(entry)) found.push_back(&entry);
  };
  const auto ends_so = [&](const Entry& entry) { return ends_with(lower(entry.name), "." + asked); };
  take([&](const Entry& entry) { return is_called(entry, asked) || (is_of_settings(entry) && ends_so(entry)); });
  if (const std::size_t dot = asked.find('.'); dot != std::string::npos) {
    const std::string section = asked.substr(0, dot), key = asked.substr(dot + 1);
    take([&](const Entry& entry) { return lower(entry.section) == section && is_called(entry, key); });
    take([&](const Entry& entry) { return is_called(entry, key); });  // the stage has a name of the user's
  }
  take(ends_so);
  return found;
}

std::vector<std::string> nearest_names(const std::vector<Entry>& entries, const std::string& asked) {
  constexpr std::size_t most = 5;
  std::set<std::string> all;
  for (const Entry& entry : entries) {
    all.insert(entry.name);
    all.insert(entry.name.substr(entry.name.rfind('.') + 1));
    all.insert(entry.also.begin(), entry.also.end());
  }
  std::vector<std::string> known(all.begin(), all.end()), nearest;
  while (nearest.size() < most) {
    const std::string one = nearest_word(asked, known);
    if (one.empty()) break;
    nearest.push_back(one);
    std::erase(known, one);
  }
  return nearest;
}

}  // namespace

namespace {

void add_explanations(const std::vector<Entry>& entries, const std::string& asked, ExplainAnswer& answer) {
  for (const Entry* entry : entries_called(entries, lower(asked))) {
    const std::string where = entry->page + (entry->section.empty() ? "" : ", " + entry->section);
    const auto same = std::find_if(answer.found.begin(), answer.found.end(), [&](const Explanation& one) {
      return one.name == entry->name && one.text == entry->text;
    });
    if (same != answer.found.end())
      same->where.push_back(where);
    else
      answer.found.push_back({{where}, entry->name, entry->text});
  }
}

// Of another program's name: "max_steps is called steps here", and what is said of that.
void add_synonym(const std::vector<Entry>& entries, const std::string& asked, ExplainAnswer& answer) {
  const std::string theirs = replace_all(lower(asked.substr(asked.rfind('.') + 1)), "-", "_");
  for (const KeySynonym& row : key_synonyms()) {
    if (row.theirs != theirs || row.ours.empty()) continue;
    answer.said = format("{} of other programs is called {} here", theirs, join(row.ours, " or "));
    if (!row.note.empty()) answer.said += ": " + row.note;
    for (const std::string& ours : row.ours) add_explanations(entries, ours, answer);
    return;
  }
}

}  // namespace

ExplainAnswer explain(const std::vector<ReferencePage>& pages, const std::string& asked) {
  constexpr std::size_t longest_name = 200;  // of the nearest ones of anything longer there is nothing to learn
  const std::vector<Entry> entries = PageReader().read(pages);
  ExplainAnswer answer;
  add_explanations(entries, asked, answer);
  add_synonym(entries, asked, answer);  // also where it is a key of ours: `max_steps` of a search stage
  if (answer.found.empty() && asked.size() <= longest_name) answer.nearest = nearest_names(entries, lower(asked));
  return answer;
}

}  // namespace longhaul
