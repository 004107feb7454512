#include "contracts/schema/key_advice.h"

#include <algorithm>
#include <cctype>

#include "base/text/text.h"
#include "contracts/schema/key_synonyms.h"

namespace longhaul {
namespace {

constexpr std::size_t keys_shown = 10, guesses_shown = 3, shared_letters_min = 4;

std::string plain_key(const std::string& key) {
  std::string plain;
  for (const unsigned char c : key) plain += c == '-' ? '_' : static_cast<char>(std::tolower(c));
  return plain;
}

// "optimizer.lr" and all other paths of more than one part; names that the user gives are not known here.
void add_deeper(const std::vector<FieldInfo>& members, const std::string& prefix, std::vector<std::string>& paths) {
  for (const FieldInfo& member : members) {
    if (member.named) continue;
    paths.push_back(prefix + member.name);
    add_deeper(member.members, prefix + member.name + ".", paths);
  }
}

std::string last_key(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::string did_you_mean(const std::vector<std::string>& paths, const std::string& note) {
  std::string text = "did you mean '" + join(paths, "' or '") + "'?";
  return note.empty() ? text : text + " (" + note + ")";
}

struct KnownKeys {
  std::vector<std::string> here, deeper;  // "steps"; "optimizer.lr"
  const std::vector<std::string>& others;
  std::string table;  // last part of the section: "optimizer"

  bool has(const std::string& path) const {
    const auto contains = [&](const std::vector<std::string>& list, const std::string& one) {
      return std::find(list.begin(), list.end(), one) != list.end();
    };
    return contains(here, path) || contains(deeper, path) || contains(others, path.substr(0, path.find('.')));
  }
  // As it is written in this table; "" where it has no such key.
  std::string as_written_here(const std::string& path) const {
    const std::string prefix = table + ".";
    if (starts_with(path, prefix) && has(path.substr(prefix.size()))) return path.substr(prefix.size());
    return has(path) ? path : "";
  }
};

std::string synonym_hint(const std::string& key, const KnownKeys& known) {
  const std::string plain = plain_key(key);
  for (const KeySynonym& row : key_synonyms()) {
    if (row.theirs != plain) continue;
    std::vector<std::string> ours;
    for (const std::string& path : row.ours)
      if (std::string here = known.as_written_here(path); !here.empty()) ours.push_back(std::move(here));
    if (!ours.empty()) return did_you_mean(ours, row.note);
  }
  return {};
}

std::string same_name_deeper(const std::string& key, const KnownKeys& known) {
  std::vector<std::string> same;
  for (const std::string& path : known.deeper)
    if (last_key(path) == plain_key(key) && same.size() < guesses_shown) same.push_back(path);
  return same.empty() ? "" : did_you_mean(same, "");
}

std::string near_name_deeper(const std::string& key, const KnownKeys& known) {
  std::vector<std::string> names;
  for (const std::string& path : known.deeper) names.push_back(last_key(path));
  const std::string nearest = nearest_word(key, names);
  return nearest.empty() ? "" : same_name_deeper(nearest, known);
}

// The key in other letters ("Steps"), then keys that begin with it ("every" of every_steps), then those that end so
// ("schedule" of lr_schedule).
std::string extended_name(const std::string& key, const KnownKeys& known) {
  const std::string plain = plain_key(key);
  std::vector<std::string> longer, ending;
  for (const std::string& one : known.here) {
    if (plain_key(one) == plain) return did_you_mean({one}, "");
    if (plain.size() < shared_letters_min) continue;
    if (starts_with(one, plain + "_")) longer.push_back(one);
    if (ends_with(one, "_" + plain)) ending.push_back(one);
  }
  if (longer.empty()) longer = std::move(ending);
  return longer.empty() || longer.size() > guesses_shown ? "" : did_you_mean(longer, "");
}

bool shares_part(const std::string& key, const std::string& other) {
  const auto parts = split(plain_key(key), '_');
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return part.size() >= shared_letters_min && other.find(part) != std::string::npos;
  });
}

std::string page_of(const std::string& where, const std::string& kind) {
  if (where == "stage" || starts_with(where, "stage."))
    return "docs/reference/stage-kinds.md" + (kind.empty() ? "" : "#" + kind);
  if (where == "site" || starts_with(where, "site.")) return "docs/reference/site.md";
  return {};
}

std::string list_of(std::vector<std::string> keys, const std::string& key, const std::string& page) {
  std::stable_partition(keys.begin(), keys.end(), [&](const std::string& one) { return shares_part(key, one); });
  const std::size_t left_out = keys.size() > keys_shown ? keys.size() - keys_shown : 0;
  keys.resize(keys.size() - left_out);
  std::string text = "known keys: " + join(keys, ", ");
  if (left_out == 0) return text;
  text += format(" and {} more", left_out);
  return page.empty() ? text : text + ": see " + page;
}

}  // namespace

std::string unknown_key_hint(const std::string& key, const std::vector<FieldSlot>& slots,
                             const std::vector<std::string>& others, const std::string& where,
                             const std::string& kind) {
  KnownKeys known{{}, {}, others, last_key(where)};
  for (const FieldSlot& slot : slots) {
    known.here.push_back(slot.info.name);
    if (!slot.info.named) add_deeper(slot.info.members, slot.info.name + ".", known.deeper);
  }
  if (std::string hint = synonym_hint(key, known); !hint.empty()) return hint;
  if (std::string hint = extended_name(key, known); !hint.empty()) return hint;
  if (std::string hint = same_name_deeper(key, known); !hint.empty()) return hint;
  std::vector<std::string> all = known.here;
  all.insert(all.end(), others.begin(), others.end());
  if (const std::string nearest = nearest_word(key, all); !nearest.empty()) return did_you_mean({nearest}, "");
  if (std::string hint = near_name_deeper(key, known); !hint.empty()) return hint;
  return list_of(std::move(all), key, page_of(where, kind));
}

}  // namespace longhaul
